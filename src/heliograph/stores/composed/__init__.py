"""A store whose roles are served by several engines: one holds the truth, the others follow it."""
