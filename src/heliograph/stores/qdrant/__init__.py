"""Qdrant: vectors beside the store that holds the truth."""
