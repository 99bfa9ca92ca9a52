"""From a question to a context and an answer: keywords, channels, merging, budget, references."""
