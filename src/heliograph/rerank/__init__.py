"""Rerankers behind one contract: question and passages in, passages by relevance out.

Services over HTTP and a local cross-encoder are providers, each nothing but its one call. Pieces of long documents,
batches, limit, retries and timeout are wrappers around them.
"""
