"""Durable work in the background: what was accepted is done, whatever process dies in between."""
