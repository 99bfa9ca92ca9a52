"""Embedding models behind one contract: the offline default and OpenAI-compatible services."""
