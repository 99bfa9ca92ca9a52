"""What people correct in the graph: edits, merges, splits, their history, and entities that may be one."""
