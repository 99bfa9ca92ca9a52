"""Measures retrieval on sets of questions: reads sets, indexes, asks, scores, compares, reports."""
