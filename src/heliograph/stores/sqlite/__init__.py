"""The embedded store: one SQLite file and its accelerators, of vectors and of full text, per workspace."""
