"""Runs the graph on windows of tokens.

What comes in is one run: a few windows of similar length, few enough that a run takes a fraction of a second and its
intermediate values stay in the processor's cache. What goes out is the mean vector of each. A window's vector does not
depend on the others in its run. A run takes one thread, and several may go side by side: that keeps all cores busy,
where threads that share a run wait for each other (two of them cost a seventh more CPU time than one). Each holds
intermediate values of its own, 60 to 80 MB for the longest window.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors  # pyright: ignore[reportAttributeAccessIssue]

from heliograph.embedding.e5.graph_names import (
    MASK_INPUT,
    OUTPUT,
    PADDED_INPUT,
    PLACES_INPUT,
    ROWS_INPUT,
    SLOTS_INPUT,
    WORDS_INPUT,
)
from heliograph.embedding.e5.weights import E5Weights
from heliograph.errors import ModelUnavailable

# Far below any score, so that the softmax of it is 0.
_OF_PADDING = np.float32(-10_000)
_ERRORS_ONLY = 3
_ONNXRUNTIME_ERRORS: tuple[type[Exception], ...] = tuple(
    getattr(ort_errors, name)
    for name in (
        "EPFail",
        "Fail",
        "InvalidArgument",
        "InvalidGraph",
        "InvalidProtobuf",
        "NotImplemented",
        "RuntimeException",
    )
)


class E5Encoder:
    """A loaded graph. Safe to use from several threads at once.

    Args:
        graph: What `make_graph` returned.
        weights: Gives the word vectors.

    Raises:
        ModelUnavailable: The graph cannot be loaded.
    """

    def __init__(self, graph: bytes, weights: E5Weights) -> None:
        self._weights = weights
        self._session = _load(graph)

    def encode(self, windows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """Return the mean vectors of one run's windows, `(windows, hidden)`, not normalised.

        Raises:
            ModelUnavailable: The run failed, most likely for lack of memory.
        """
        lengths = np.array([len(window) for window in windows], np.int64)
        words = self._weights.word_vectors(np.concatenate(windows))
        vectors = _run(self._session, {WORDS_INPUT: words, **_layout(lengths, self._weights.shape.heads)})
        starts = np.cumsum(lengths) - lengths
        sums = cast("NDArray[np.float32]", np.add.reduceat(vectors, starts))
        return sums / lengths.astype(np.float32)[:, None]


def _load(graph: bytes) -> onnxruntime.InferenceSession:
    try:
        return onnxruntime.InferenceSession(graph, _options(), ["CPUExecutionProvider"])
    except _ONNXRUNTIME_ERRORS as error:
        raise ModelUnavailable(
            f"onnxruntime {onnxruntime.__version__} cannot load the offline embedding: {error}; "
            "run: pip install --upgrade onnxruntime"
        ) from error


def _run(session: onnxruntime.InferenceSession, inputs: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
    try:
        return cast("NDArray[np.float32]", session.run([OUTPUT], inputs)[0])
    except _ONNXRUNTIME_ERRORS as error:
        raise ModelUnavailable(f"the offline embedding failed: {error}; free some memory and try again") from error


def _layout(lengths: NDArray[np.int64], heads: int) -> dict[str, NDArray[Any]]:
    """Return the inputs that say where each token of windows of these lengths belongs."""
    longest = lengths.max()
    is_token = np.arange(longest) < lengths[:, None]
    windows, places = np.nonzero(is_token)
    rows = np.zeros(is_token.shape, np.int64)
    rows[is_token] = np.arange(len(places))
    head = np.arange(heads)
    return {
        PLACES_INPUT: places,
        ROWS_INPUT: rows[:, None, :] * (3 * heads) + head[:, None],
        MASK_INPUT: np.where(is_token, np.float32(0), _OF_PADDING)[:, None, None, :],
        PADDED_INPUT: np.array(not is_token.all()),
        SLOTS_INPUT: (windows[:, None] * heads + head) * longest + places[:, None],
    }


def _options() -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # Runs are small and alike, so what an arena would save in time is little against what it would keep in memory.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = _ERRORS_ONLY
    return options
