"""Extraction: reads what the chunks of a document say, as mentions of entities and relations."""
