"""Extraction: what the chunks of a document say, as entity and relation mentions. One file per extractor."""
