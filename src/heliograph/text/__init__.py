"""Language without models of ours: tokens, names, words, sentences."""
