"""Keeping a workspace right: checks, rebuilding, another embedding, moving knowledge out and in."""
