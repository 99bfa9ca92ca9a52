"""From what was retrieved to the text that a model reads: budgets, order, references, format, prompt."""
