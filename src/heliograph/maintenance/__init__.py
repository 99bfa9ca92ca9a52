"""Upkeep of a workspace: checks, rebuilding, changing the embedding, export and import."""
