"""Extraction: reads entity mentions and relation mentions in the chunks of a document."""
