"""Looking into retrieval: what a question covers, what its keywords found, what budgets cut, how modes differ.

Everything here asks an open `Heliograph` and returns frozen reports; nothing is written to the store, and no chat
model writes an answer unless `run_benchmark` is asked to time answers.
"""
