"""Runs the graph on windows of tokens.

What comes in is one run: a few windows of similar length, few enough that a run takes a fraction of a second and its
intermediate values stay in the processor's cache. What goes out is the mean vector of each. A window's vector does not
depend on the others in its run beyond the last float32 digits (padding changes the order of some sums).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors  # pyright: ignore[reportAttributeAccessIssue]

from heliograph.embedding.e5.graph_names import MASK_INPUT, OUTPUT, WORDS_INPUT
from heliograph.embedding.e5.weights import E5Weights
from heliograph.errors import ModelUnavailable

__all__ = ["E5Encoder", "plan_runs"]

_MAX_RUN_TOKENS = 512
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
    """A loaded graph. Safe to use from several threads.

    Args:
        graph: What `make_graph` returned.
        weights: Gives the word vectors.
        threads: Threads of one run; 0 means one a core.

    Raises:
        ModelUnavailable: The graph cannot be loaded.
    """

    def __init__(self, graph: bytes, weights: E5Weights, threads: int) -> None:
        self._weights = weights
        try:
            self._session = onnxruntime.InferenceSession(graph, _options(threads), ["CPUExecutionProvider"])
        except _ONNXRUNTIME_ERRORS as error:
            raise ModelUnavailable(
                f"onnxruntime {onnxruntime.__version__} cannot load the offline embedding: {error}; "
                "run: pip install --upgrade onnxruntime"
            ) from error

    def encode(self, windows: Sequence[NDArray[np.int32]]) -> NDArray[np.float32]:
        """Return the mean vectors of one run's windows, `(windows, hidden)`, not normalised.

        Raises:
            ModelUnavailable: The run failed, most likely for lack of memory.
        """
        shape = len(windows), max(map(len, windows))
        ids = np.full(shape, self._weights.pad_id, np.int32)
        mask = np.zeros(shape, np.int32)
        for row, window in enumerate(windows):
            ids[row, : len(window)] = window
            mask[row, : len(window)] = 1
        inputs = {WORDS_INPUT: self._weights.word_vectors(ids), MASK_INPUT: mask}
        try:
            return cast("NDArray[np.float32]", self._session.run([OUTPUT], inputs)[0])
        except _ONNXRUNTIME_ERRORS as error:
            raise ModelUnavailable(f"the offline embedding failed: {error}; free some memory and try again") from error


def plan_runs(lengths: Sequence[int]) -> list[list[int]]:
    """Share windows out to runs: similar lengths together, and no run above 512 tokens with padding.

    Args:
        lengths: Tokens of each window.

    Returns:
        The windows' indices, run by run, each once.
    """
    runs: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        # The newest window is the longest so far, so it says how long all of its run become.
        if runs and (len(runs[-1]) + 1) * lengths[index] <= _MAX_RUN_TOKENS:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or _cores()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    # Runs are small and alike, so what an arena would save in time is little against what it would keep in memory.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = _ERRORS_ONLY
    # Idle threads sleep instead of burning a core that the rest of the process could use.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
