"""Looking into retrieval: what a question covers, what its keywords found, what budgets cut, how modes differ.

All functions query an open `Heliograph` and return frozen reports; nothing is written to the store, and no chat model
writes an answer unless `run_benchmark` is to time answers.
"""
