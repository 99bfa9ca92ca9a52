"""Builds the ONNX graph: the word vectors of some windows' tokens in, their vectors in context out.

The transformer is BERT's (Devlin et al. 2019): twelve layers of attention and feed-forward, each followed by a layer
norm. The windows of a run come as rows of one matrix, one below the other and without padding. Only attention needs to
know which rows belong together: before it, each head's part of each row is copied into one block per window and head,
padded to the longest; after it, back.

Attention is spelt out in plain operators: `MultiHeadAttention` computes the same floats, but copies its inputs three
times more, which takes twice as long for short windows.

The matrix products run in eight bits. Their quantisation has three particulars:

- Each token's vector gets its own scale. One scale for a whole batch, as onnxruntime's `DynamicQuantizeMatMul` uses,
  would be coarser (mean cosine to the float32 model .997 against .999) and would make a text's vector depend on the
  other texts of its batch (cosine .996 between the two).
- Weights keep to +-64, not +-127. Processors without VNNI instructions multiply in pairs and add these into 16 bits,
  where 2 * 255 * 127 would be cut off but 2 * 255 * 64 is not; so all processors compute the same integers.
- Layer norms stand alone: onnxruntime's fused `SkipLayerNormalization` is four times slower on a CPU. The session must
  therefore not ask for extended optimisation, which would fuse them.

One different rounding changes all later results: a change of one part in ten million in the word vectors moves a text's
vector to a (centred) cosine of .998. So stores stay exact, and a text's vector the same in every batch, only while each
operator computes the same floats: no other division before rounding, no other order of summation.

The word table is not part of the graph; the rows in use come in as `words`, so 96 of the model's 118 million weights
never need to be unpacked.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, StringStringEntryProto, TensorProto, helper, numpy_helper

from heliograph.embedding.e5.model import (
    MASK_INPUT,
    OUTPUT,
    PADDED_INPUT,
    PLACES_INPUT,
    ROWS_INPUT,
    SLOTS_INPUT,
    WORDS_INPUT,
    E5Weights,
)

_CONTRIB = "com.microsoft"
# 2 * 255 * 64 still fits 16 signed bits.
_WEIGHT_STEPS = 64
# The least value of GELU is -0.169972; with this added, inputs of the second feed-forward product are never negative
# and use all 256 steps.
_GELU_SHIFT = 0.17


def make_graph(weights: E5Weights) -> bytes:
    """Return the serialized model.

    Inputs: `words`, float32 `(tokens, hidden)`, rows of the word table; `places`, int64 `(tokens,)`, each token's
    position in its window; `rows`, int64 `(windows, heads, longest)`, the row in each slot of the padded blocks when a
    token's queries, keys and values are cut into rows of one head each: the queries' row, any for padding; `mask`,
    float32 `(windows, 1, 1, longest)`, added to scores: 0 for tokens, negative enough for padding that its weight
    vanishes; `is_padded`, bool, whether there is any padding; `slots`, int64 `(tokens, heads)`, each such row's slot,
    counted through all blocks. Output: `vectors`, float32 `(tokens, hidden)`.
    """
    return _GraphBuilder(weights).build().SerializeToString()


def part_matrices(graph: bytes, file: str, start: int) -> tuple[bytes, bytes]:
    """Move the large matrices of a serialized model into a file, so that loading need not copy them.

    `start` is the offset in the file at which they will begin.

    Returns:
        The model, which refers to the matrices by offset, and the matrices, one after the other.
    """
    model, matrices = ModelProto.FromString(graph), bytearray()
    for tensor in model.graph.initializer:
        # Made of bytes, so any alignment works.
        if tensor.data_type == TensorProto.INT8:
            place = {"location": file, "offset": start + len(matrices), "length": len(tensor.raw_data)}
            tensor.external_data.extend(StringStringEntryProto(key=key, value=str(it)) for key, it in place.items())
            tensor.data_location = TensorProto.EXTERNAL
            matrices += tensor.raw_data
            tensor.ClearField("raw_data")
    return model.SerializeToString(), bytes(matrices)


class _GraphBuilder:
    """Collects nodes and constants; methods for parts of the model take and return names of values."""

    def __init__(self, weights: E5Weights) -> None:
        self._weights = weights
        self._shape = weights.shape
        self._nodes: list[NodeProto] = []
        self._constants: dict[str, NDArray[Any]] = {}
        self._head_size = weights.shape.hidden // weights.shape.heads
        # Rows of queries, keys and values.
        self._rows = [ROWS_INPUT, self._rows_after(1), self._rows_after(2)]

    def build(self) -> ModelProto:
        hidden, heads = self._shape.hidden, self._shape.heads
        # The embeddings of the position and of the only sentence type are added to each word.
        positions = self._weights.vector("emb.pos").reshape(-1, hidden) + self._weights.vector("emb.type")[:hidden]
        placed = self._node("Gather", [self._constant("positions", positions), PLACES_INPUT])
        value = self._layer_norm(self._node("Add", [WORDS_INPUT, placed]), "emb.ln")
        for layer in range(self._shape.layers):
            value = self._feed_forward(layer, self._attention(layer, value))
        self._node("Identity", [value], [OUTPUT])
        graph = helper.make_graph(
            self._nodes,
            "multilingual-e5-small",
            [
                helper.make_tensor_value_info(WORDS_INPUT, TensorProto.FLOAT, ["tokens", hidden]),
                helper.make_tensor_value_info(PLACES_INPUT, TensorProto.INT64, ["tokens"]),
                helper.make_tensor_value_info(ROWS_INPUT, TensorProto.INT64, ["windows", heads, "longest"]),
                helper.make_tensor_value_info(MASK_INPUT, TensorProto.FLOAT, ["windows", 1, 1, "longest"]),
                helper.make_tensor_value_info(PADDED_INPUT, TensorProto.BOOL, []),
                helper.make_tensor_value_info(SLOTS_INPUT, TensorProto.INT64, ["tokens", heads]),
            ],
            [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["tokens", hidden])],
            [numpy_helper.from_array(value, name) for name, value in self._constants.items()],
        )
        # The oldest versions that have all of these operators, so that old onnxruntimes load the graph too.
        versions = [helper.make_opsetid("", 18), helper.make_opsetid(_CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=versions, ir_version=8)

    def _attention(self, layer: int, value: str) -> str:
        weights, prefix, hidden = self._weights, f"l{layer}.", self._shape.hidden
        matrix = np.concatenate([weights.matrix(f"{prefix}{part}.w", hidden) for part in "qkv"])
        bias = np.concatenate([weights.vector(f"{prefix}{part}.b") for part in "qkv"])
        product = self._product(f"{prefix}qkv", value, matrix)
        by_head = self._cut_by_head(self._node("Add", [product, self._constant(f"{prefix}qkv.b", bias)]))
        queries, keys, values = (self._node("Gather", [by_head, rows]) for rows in self._rows)
        factor = 1 / math.sqrt(self._head_size)
        scores = self._node("FusedMatMul", [queries, keys], domain=_CONTRIB, transB=1, alpha=factor)
        masked = f"{scores}.masked"
        with_padding = _softmax(masked, helper.make_node("Add", [scores, MASK_INPUT], [masked]))
        attended = self._node(
            "MatMul", [self._node("If", [PADDED_INPUT], then_branch=with_padding, else_branch=_softmax(scores)), values]
        )
        attended = self._node("Gather", [self._cut_by_head(attended), SLOTS_INPUT])
        attended = self._node("Reshape", [attended, self._integers("whole", 0, hidden)])
        product = self._product(f"{prefix}ao", attended, weights.matrix(f"{prefix}ao.w", hidden))
        return self._residual(product, weights.vector(f"{prefix}ao.b"), value, f"{prefix}aln")

    def _rows_after(self, parts: int) -> str:
        return self._node("Add", [ROWS_INPUT, self._integers(f"rows{parts}", parts * self._shape.heads)])

    def _cut_by_head(self, value: str) -> str:
        return self._node("Reshape", [value, self._integers("head", -1, self._head_size)])

    def _feed_forward(self, layer: int, value: str) -> str:
        weights, prefix, hidden, inner = self._weights, f"l{layer}.", self._shape.hidden, self._shape.inner
        product = self._product(f"{prefix}fi", value, weights.matrix(f"{prefix}fi.w", hidden))
        biased = self._node("Add", [product, self._constant(f"{prefix}fi.b", weights.vector(f"{prefix}fi.b"))])
        # Not `BiasGelu`, which takes longer than both.
        activated = self._node("Gelu", [biased], domain=_CONTRIB)
        # The output of GELU is shifted to 0..255; the effect on each output is subtracted from its bias.
        shifted = self._node("Add", [activated, self._constant("shift", np.array(_GELU_SHIFT, np.float32))])
        matrix = weights.matrix(f"{prefix}fo.w", inner)
        product, quantised = self._scaled_product(f"{prefix}fo", shifted, shifted, matrix, zero_point=0, steps=255)
        bias = weights.vector(f"{prefix}fo.b") - _GELU_SHIFT * quantised.sum(0)
        return self._residual(product, bias, value, f"{prefix}oln")

    def _residual(self, product: str, bias: NDArray[np.float32], value: str, norm: str) -> str:
        biased = self._node("Add", [product, self._constant(f"{norm}.before", bias)])
        return self._layer_norm(self._node("Add", [biased, value]), norm)

    def _product(self, name: str, value: str, matrix: NDArray[np.float32]) -> str:
        """Multiply by a `(outputs, inputs)` matrix; each token is scaled to -127..127 and stored with 128 added."""
        sizes = self._node("Abs", [value])
        return self._scaled_product(name, value, sizes, matrix, zero_point=128, steps=127)[0]

    def _scaled_product(
        self, name: str, value: str, sizes: str, matrix: NDArray[np.float32], *, zero_point: int, steps: int
    ) -> tuple[str, NDArray[np.float32]]:
        """Divide each token by the largest of its `sizes`, quantise, multiply, and scale back.

        Also return the matrix that this used.
        """
        columns = np.abs(matrix).max(1) / _WEIGHT_STEPS
        codes = np.round(matrix / columns[:, None]).T.astype(np.int8)
        step = self._constant(f"step{steps}", np.array(1 / steps, np.float32))
        zero = self._constant(f"zero{zero_point}", np.array(zero_point, np.uint8))
        # A token of zeros has size 0: whatever its codes are, the product is scaled back to 0.
        size = self._node("ReduceMax", [sizes, self._integers("last_axis", -1)], keepdims=1)
        quantised = self._node("QuantizeLinear", [self._node("Div", [value, size]), step, zero])
        inputs = [quantised, self._constant(f"{name}.w", codes), step, self._constant(f"{name}.scale", columns), zero]
        product = self._node("MatMulIntegerToFloat", inputs, domain=_CONTRIB)
        return self._node("Mul", [product, size]), codes.astype(np.float32) * columns

    def _layer_norm(self, value: str, name: str) -> str:
        scale, bias = (self._constant(f"{name}.{part}", self._weights.vector(f"{name}.{part}")) for part in "wb")
        return self._node("LayerNormalization", [value, scale, bias], axis=-1, epsilon=self._shape.epsilon)

    def _integers(self, name: str, *values: int) -> str:
        return self._constant(name, np.array(values, np.int64))

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        self._constants[name] = np.ascontiguousarray(value)
        return name

    def _node(self, operator: str, inputs: list[str], outputs: list[str] | None = None, **attributes: Any) -> str:
        outputs = outputs or [f"{operator}{len(self._nodes)}"]
        self._nodes.append(helper.make_node(operator, inputs, outputs, **attributes))
        return outputs[0]


def _softmax(scores: str, *before: NodeProto) -> GraphProto:
    """Return a graph with the softmax of a value, which the given nodes or the outer graph compute."""
    shares = f"{scores}.shares"
    softmax = helper.make_node("Softmax", [scores], [shares], axis=-1)
    output = helper.make_tensor_value_info(shares, TensorProto.FLOAT, None)
    return helper.make_graph([*before, softmax], shares, [], [output])
