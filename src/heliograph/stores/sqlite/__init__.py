"""The embedded store: per workspace one SQLite file and its accelerator files, of vectors and of full text."""
