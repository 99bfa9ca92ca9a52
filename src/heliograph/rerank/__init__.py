"""Rerankers behind one contract: question and passages in, passages by relevance out.

Wrappers for limit, retries and timeout come with it, so that a provider is nothing but its one call.
"""
