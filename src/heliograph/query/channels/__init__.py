"""The ways of searching, one module each; `heliograph.query.modes` says which mode uses which."""
