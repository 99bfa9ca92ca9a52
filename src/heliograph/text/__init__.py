"""Language processing without a chat model: tokens, names, words, sentences."""
