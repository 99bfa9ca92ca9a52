"""Names of the graph's inputs and output, apart from `graph`, so that running it does not import `onnx`."""

from __future__ import annotations

WORDS_INPUT = "words"
PLACES_INPUT = "places"
ROWS_INPUT = "rows"
MASK_INPUT = "mask"
PADDED_INPUT = "is_padded"
SLOTS_INPUT = "slots"
OUTPUT = "vectors"
