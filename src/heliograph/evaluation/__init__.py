"""Measures retrieval on a set of questions: sets in, indexes, questions, scores, comparisons, reports out."""
