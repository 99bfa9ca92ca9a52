"""Corrections of the graph by people: edits, merges, splits, their history, and likely duplicates."""
