"""A cross-encoder in this process, by onnxruntime, from a folder that the user names; nothing is downloaded.

The folder is what model hubs hold of an exported cross-encoder: `tokenizer.json`, an ONNX file, and, if there,
`config.json` and `tokenizer_config.json`.
"""
