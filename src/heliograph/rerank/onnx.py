"""A cross-encoder in this process, by onnxruntime, from a folder that the user names; nothing is downloaded."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as ort_errors  # pyright: ignore[reportAttributeAccessIssue]

from heliograph.errors import BadModelReply, ModelUnavailable, SettingsError, import_optional
from heliograph.rerank.base import Reranker, RerankHit
from heliograph.settings import RerankSettings
from heliograph.text.tokens import plan_runs

if TYPE_CHECKING:
    from tokenizers import Encoding

# The files of a cross-encoder in its folder, and the longest input that they name.

# Where exporters put the graph; the unquantised graph first, then the quantised ones; `model_file` chooses another.
_USUAL = ("model.onnx", "onnx/model.onnx")
_DEFAULT_MAX_TOKENS = 512
# Tokenizers without a limit state 1e30.
_MOST_TOKENS = 32_768
# Position ids of these start after the padding index, so two of the table cannot be used.
_OFFSET_POSITIONS = ("roberta", "camembert", "mpnet")


@dataclass(frozen=True, slots=True)
class CrossEncoderFiles:
    """The files of a cross-encoder; `max_tokens` bounds question, passage and separators together."""

    tokenizer: Path
    graph: Path
    max_tokens: int
    pad_id: int


def find_files(folder: Path | None, graph_name: str) -> CrossEncoderFiles:
    """Return the files of a folder.

    Args:
        folder: The folder; None if the setting is missing.
        graph_name: ONNX file below it; empty means `model.onnx` there or in `onnx/`, else the only ONNX file.

    Raises:
        SettingsError: The folder or a file in it is missing, or it is ambiguous which one is meant.
    """
    if folder is None:
        raise SettingsError("`rerank.model_dir` is empty; name the folder that holds tokenizer.json and the ONNX file")
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        raise SettingsError(
            f"`rerank.model_dir` is {str(folder)!r}, which holds no tokenizer.json; name another folder"
        )
    config = _read(folder / "config.json")
    limit = _whole(config.get("max_position_embeddings"))
    if any(kind in str(config.get("model_type", "")) for kind in _OFFSET_POSITIONS):
        limit = max(limit - 2, 0)
    limits = (limit, _whole(_read(folder / "tokenizer_config.json").get("model_max_length")))
    known = [limit for limit in limits if limit and limit <= _MOST_TOKENS]
    pad_id = config.get("pad_token_id")
    return CrossEncoderFiles(
        tokenizer,
        _find_graph(folder, graph_name.strip()),
        min(known, default=_DEFAULT_MAX_TOKENS),
        pad_id if isinstance(pad_id, int) else 0,
    )


def _find_graph(folder: Path, name: str) -> Path:
    if name:
        if (folder / name).is_file():
            return folder / name
        raise SettingsError(f"`rerank.model_file` is {name!r}, which is not in {str(folder)!r}; name a file below it")
    for usual in _USUAL:
        if (folder / usual).is_file():
            return folder / usual
    found = sorted([*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx")])
    if len(found) == 1:
        return found[0]
    names = ", ".join(str(path.relative_to(folder)) for path in found)
    raise SettingsError(
        f"`rerank.model_dir` {str(folder)!r} holds {'several ONNX files' if found else 'no ONNX file'}; "
        + (f"set `rerank.model_file` to one of {names}" if found else "export the model to model.onnx first")
    )


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) and 0 < value < 1e9 else 0


def _read(path: Path) -> Mapping[str, Any]:
    """Return a JSON file's fields; empty if it is missing, since every field has a default."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{str(path)!r} cannot be read: {error}; put the model's own file there") from error
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


# Question and passage as one row of tokens, by the package `tokenizers` (extra `rerank`); the graph runs on several
# rows, and its outputs become scores from 0 to 1.
#
# In a pair that is too long, the end of the passage is cut; a question may fill half of the window and is cut first.
# One number per pair is a logit and goes through the logistic function, unless the graph calls its output a score or a
# probability; two are the logits of "no" and "yes". Graphs differ in which inputs they take and in which data type;
# both are read from the graph.

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_WIDTHS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_SCORE_OUTPUTS = ("prob", "score", "sigmoid", "softmax")
_ERRORS_ONLY = 3
_ONNXRUNTIME_ERRORS: tuple[type[Exception], ...] = tuple(
    kind for kind in vars(ort_errors).values() if isinstance(kind, type) and issubclass(kind, Exception)
)


class CrossEncoder:
    """A loaded tokenizer and graph. Thread-safe. 0 threads mean one per core.

    Raises:
        MissingDependencyError: The package `tokenizers` is not installed.
        ModelUnavailable: The tokenizer or the graph cannot be loaded, or the graph is no cross-encoder.
    """

    def __init__(self, files: CrossEncoderFiles, threads: int) -> None:
        self._load_tokenizer(files.tokenizer, files.max_tokens)
        self._path = path = files.graph
        self._pad_id = files.pad_id
        options = onnxruntime.SessionOptions()
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        options.intra_op_num_threads = threads or cores
        # Batches differ in shape, and an arena would keep more memory for the largest than it saves time.
        options.enable_cpu_mem_arena = False
        options.enable_mem_pattern = False
        options.log_severity_level = _ERRORS_ONLY
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
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

    def _load_tokenizer(self, path: Path, max_tokens: int) -> None:
        package = import_optional("tokenizers", "rerank")
        try:
            # The library raises bare `Exception`s.
            self._tokenizer = package.Tokenizer.from_file(str(path))
        except Exception as error:
            raise ModelUnavailable(
                f"{str(path)!r} is not a tokenizer that can be loaded: {error}; put the model's own file there"
            ) from error
        self._tokenizer.no_padding()
        self._max_query_tokens = max(max_tokens // 2 - self._tokenizer.num_special_tokens_to_add(True), 1)
        self._tokenizer.no_truncation()
        self._whole = package.Tokenizer.from_str(self._tokenizer.to_str())
        self._tokenizer.enable_truncation(max_tokens, strategy="only_second")

    def rows(self, query: str, documents: Sequence[str]) -> list[Encoding]:
        """Return one row a document: the ids of its tokens, and of each whether it is the question's (0) or not (1)."""
        ends, most = self._whole.encode(query, add_special_tokens=False).offsets, self._max_query_tokens
        question = query if len(ends) <= most else query[: ends[most - 1][1]]
        return self._tokenizer.encode_batch([(question, document) for document in documents])

    def score(self, rows: Sequence[Encoding]) -> list[float]:
        """Return one score a row.

        Raises:
            ModelUnavailable: The run failed, most likely for lack of memory.
            BadModelReply: The output is not one score per row, or not finite.
        """
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
        feeds = {name: filled[name].astype(width) for name, width in self._widths.items() if width is not None}
        try:
            output = np.asarray(self._session.run([self._output], feeds)[0], np.float64)
        except _ONNXRUNTIME_ERRORS as error:
            raise ModelUnavailable(
                f"the cross-encoder {str(self._path)!r} failed: {error}; if memory is short, use a quantised model"
            ) from error
        if output.shape not in {(len(rows),), (len(rows), 1), (len(rows), 2)} or not np.isfinite(output).all():
            raise BadModelReply(
                f"the cross-encoder {str(self._path)!r} gave {output.shape} numbers, not all of which are scores, "
                f"for {len(rows)} pairs; name a model with one or two labels"
            )
        output = output.reshape(len(rows), -1)
        if self._gives_scores:
            return output[:, -1].tolist()
        # Of two labels, the softmax of "yes" is the logistic function of the difference.
        logits = output[:, 0] if output.shape[1] == 1 else output[:, 1] - output[:, 0]
        return (1 / (1 + np.exp(-np.clip(logits, -500, 500)))).tolist()


# The local cross-encoder as a `Reranker`: loaded on first use, run batch by batch in a thread.
#
# Between two batches, a question that timed out or was cancelled stops the rest.

# With padding. Small enough that an abandoned question does not keep the processor busy for long.
_MAX_BATCH_TOKENS = 2048


class OnnxReranker(Reranker):
    """A cross-encoder from a folder.

    Raises:
        SettingsError: A required file is missing in the folder.
        MissingDependencyError: The extra `rerank` is not installed.
    """

    def __init__(self, settings: RerankSettings) -> None:
        self._files = find_files(settings.model_dir, settings.model_file)
        # A missing package fails here and not with the first question.
        import_optional("tokenizers", "rerank")
        folder = self._files.tokenizer.parent
        self._name = f"onnx:{folder.name}/{self._files.graph.relative_to(folder)}"
        self._threads = settings.threads
        self._lock = threading.Lock()
        self._loaded: CrossEncoder | None = None
        self._is_closed = False

    @property
    def name(self) -> str:
        return self._name

    async def rerank(self, query: str, documents: Sequence[str], top_n: int) -> list[RerankHit]:
        """Return the hits, scores from 0 to 1; raises `ModelError` if the model cannot be run."""
        if not documents or top_n < 1:
            return []
        model, rows = await asyncio.to_thread(self._prepare, query, documents)
        scores = [0.0] * len(rows)
        for batch in plan_runs([len(row.ids) for row in rows], _MAX_BATCH_TOKENS):
            found = await asyncio.to_thread(model.score, [rows[index] for index in batch])
            for index, score in zip(batch, found, strict=True):
                scores[index] = score
        order = sorted(range(len(scores)), key=lambda index: (-scores[index], index))
        return [RerankHit(index, scores[index]) for index in order[:top_n]]

    async def close(self) -> None:
        self._is_closed = True
        self._loaded = None

    def _prepare(self, query: str, documents: Sequence[str]) -> tuple[CrossEncoder, list[Encoding]]:
        with self._lock:
            if self._is_closed:
                raise ModelUnavailable(f"the reranker {self._name!r} is closed; open the workspace again")
            if self._loaded is None:
                self._loaded = CrossEncoder(self._files, self._threads)
            model = self._loaded
        return model, model.rows(_clean(query), [_clean(document) for document in documents])


def _clean(text: str) -> str:
    """Return a text that the tokenizer, written in Rust, can read: lone surrogates become question marks."""
    return text.encode("utf-8", "replace").decode()
