"""What every face of the service shares: open workspaces, who may do what, and work in the background."""
