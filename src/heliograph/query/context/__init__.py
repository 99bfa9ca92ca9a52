"""From retrieved items to the text that a model reads: budgets, order, references, format, prompt."""
