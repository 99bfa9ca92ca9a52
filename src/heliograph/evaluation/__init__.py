"""How good retrieval is on a set of questions: sets in, indexes, questions asked, scores, comparisons, reports out."""
