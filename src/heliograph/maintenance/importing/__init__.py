"""Bringing knowledge in that was made elsewhere: archives, and LightRAG's working directories."""
