"""The part of the service that HTTP and MCP share: open workspaces, access control, and background jobs."""
