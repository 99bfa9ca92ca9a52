"""Names of the graph's inputs and output, apart from `graph`, so that running it does not import `onnx`."""

from __future__ import annotations

__all__ = ["MASK_INPUT", "OUTPUT", "WORDS_INPUT"]

WORDS_INPUT = "words"
MASK_INPUT = "mask"
OUTPUT = "mean"
