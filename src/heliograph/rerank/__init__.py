"""Rerankers behind one contract: question and passages in, passages by relevance out.

Services over HTTP and a local cross-encoder are providers, each with only its own call. Splitting, batching, limit,
retries and timeout are wrappers around them.
"""
