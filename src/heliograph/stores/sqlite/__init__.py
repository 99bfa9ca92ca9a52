"""The embedded store: one SQLite file and its vector accelerators per workspace."""
