"""Runs a cross-encoder's graph on rows of tokens and turns what it says into scores from 0 to 1.

One number a pair is a logit and goes through the logistic function, unless the graph calls its output a score or a
probability; two are the logits of "no" and "yes". Graphs differ in which inputs they take and of which width; both are
read from the graph.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors  # pyright: ignore[reportAttributeAccessIssue]

from heliograph.errors import BadModelReply, ModelUnavailable
from heliograph.rerank.onnx.tokenizer import TokenRow

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_WIDTHS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_SCORE_OUTPUTS = ("prob", "score", "sigmoid", "softmax")
_ERRORS_ONLY = 3
_ONNXRUNTIME_ERRORS: tuple[type[Exception], ...] = tuple(
    kind for kind in vars(ort_errors).values() if isinstance(kind, type) and issubclass(kind, Exception)
)


class CrossEncoderScorer:
    """A loaded graph. Safe to use from several threads.

    Args:
        path: The ONNX file.
        pad_id: The token that fills up a batch.
        threads: Threads of one run; 0 means one a core.

    Raises:
        ModelUnavailable: The graph cannot be loaded, or is not that of a cross-encoder.
    """

    def __init__(self, path: Path, pad_id: int, threads: int) -> None:
        self._path = path
        self._pad_id = pad_id
        try:
            self._session = onnxruntime.InferenceSession(str(path), _options(threads), ["CPUExecutionProvider"])
        except _ONNXRUNTIME_ERRORS as error:
            raise ModelUnavailable(
                f"onnxruntime {onnxruntime.__version__} cannot load {str(path)!r}: {error}; export the model again"
            ) from error
        self._widths = {item.name: _WIDTHS.get(item.type) for item in self._session.get_inputs()}
        wrong = [name for name, width in self._widths.items() if name not in _INPUTS or width is None]
        if wrong or _INPUTS[0] not in self._widths:
            raise ModelUnavailable(
                f"{str(path)!r} takes {', '.join(self._widths)}; a cross-encoder takes whole numbers as "
                f"{', '.join(_INPUTS)}; name another ONNX file"
            )
        self._output = self._session.get_outputs()[0].name
        self._gives_scores = any(word in self._output.lower() for word in _SCORE_OUTPUTS)

    def score(self, rows: Sequence[TokenRow]) -> list[float]:
        """Return one score a row.

        Raises:
            ModelUnavailable: The run failed, most likely for lack of memory.
            BadModelReply: What came out is not one score a row, or not finite.
        """
        try:
            output = np.asarray(self._session.run([self._output], self._feeds(rows))[0], np.float64)
        except _ONNXRUNTIME_ERRORS as error:
            raise ModelUnavailable(
                f"the cross-encoder {str(self._path)!r} failed: {error}; if memory is short, use a quantised model"
            ) from error
        if output.shape not in {(len(rows),), (len(rows), 1), (len(rows), 2)} or not np.isfinite(output).all():
            raise BadModelReply(
                f"the cross-encoder {str(self._path)!r} gave {output.shape} numbers, not all of which are scores, "
                f"for {len(rows)} pairs; name a model with one or two labels"
            )
        return self._scores(output.reshape(len(rows), -1))

    def _feeds(self, rows: Sequence[TokenRow]) -> dict[str, NDArray[Any]]:
        shape = len(rows), max(len(row.ids) for row in rows)
        filled = {
            "input_ids": np.full(shape, self._pad_id, np.int64),
            "attention_mask": np.zeros(shape, np.int64),
            "token_type_ids": np.zeros(shape, np.int64),
        }
        for place, row in enumerate(rows):
            filled["input_ids"][place, : len(row.ids)] = row.ids
            filled["attention_mask"][place, : len(row.ids)] = 1
            filled["token_type_ids"][place, : len(row.ids)] = row.type_ids
        return {name: filled[name].astype(width) for name, width in self._widths.items() if width is not None}

    def _scores(self, output: NDArray[np.float64]) -> list[float]:
        if self._gives_scores:
            return output[:, -1].tolist()
        # Of two labels, the softmax of "yes" is the logistic function of the difference.
        logits = output[:, 0] if output.shape[1] == 1 else output[:, 1] - output[:, 0]
        return (1 / (1 + np.exp(-np.clip(logits, -500, 500)))).tolist()


def _options(threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or _cores()
    # Batches differ in shape, and what an arena keeps of the largest is more than it saves.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = _ERRORS_ONLY
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
