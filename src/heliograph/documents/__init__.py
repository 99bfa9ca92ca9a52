"""Loads one source into clean text and metadata."""
