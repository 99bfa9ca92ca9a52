"""The graph against the plain model: BERT's formulas in float32, straight from the weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from heliograph.embedding.e5.graph import make_graph
from heliograph.embedding.e5.model import E5Encoder, E5Tokenizer, E5Weights

Array = NDArray[np.float32]


def _norm(weights: E5Weights, x: Array, name: str) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    spread = np.sqrt((centred**2).mean(-1, keepdims=True) + weights.shape.epsilon)
    return centred / spread * weights.vector(f"{name}.w") + weights.vector(f"{name}.b")


def _linear(weights: E5Weights, x: Array, name: str) -> Array:
    return x @ weights.matrix(f"{name}.w", x.shape[-1]).T + weights.vector(f"{name}.b")


def _attention(weights: E5Weights, x: Array, layer: int) -> Array:
    heads = weights.shape.heads
    q, k, v = (_linear(weights, x, f"l{layer}.{part}").reshape(len(x), heads, -1).swapaxes(0, 1) for part in "qkv")
    scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[-1])
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    return _linear(weights, (shares @ v).swapaxes(0, 1).reshape(x.shape), f"l{layer}.ao")


def _gelu(x: Array) -> Array:
    return (x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2).astype(np.float32)


def _mean(weights: E5Weights, window: NDArray[np.int32]) -> Array:
    positions = weights.vector("emb.pos").reshape(-1, weights.shape.hidden)[: len(window)]
    words = weights.word_vectors(window)
    x = _norm(weights, words + positions + weights.vector("emb.type")[: weights.shape.hidden], "emb.ln")
    for layer in range(weights.shape.layers):
        x = _norm(weights, x + _attention(weights, x, layer), f"l{layer}.aln")
        inner = _gelu(_linear(weights, x, f"l{layer}.fi"))
        x = _norm(weights, x + _linear(weights, inner, f"l{layer}.fo"), f"l{layer}.oln")
    return x.mean(0)


@pytest.mark.slow
def test_graph_agrees_with_the_plain_model(weights: E5Weights, tokenizer: E5Tokenizer) -> None:
    texts = ("Who keeps the lamp?", "灯塔看守人每个星期天给港务局写信。", "retry_after = 3  # seconds")
    windows = [tokenizer.windows(text, "document")[0] for text in texts]
    found = E5Encoder(make_graph(weights), weights).encode(windows)
    expected = np.stack([_mean(weights, window) for window in windows])
    cosines = (found * expected).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(expected, axis=1)
    assert cosines.min() > 0.998
