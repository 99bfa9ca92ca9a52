"""The files of a cross-encoder in its folder, and the longest input that they name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from heliograph.errors import SettingsError

# Where exporters put the graph; a graph as trained before the quantised ones, which `model_file` chooses.
_USUAL = ("model.onnx", "onnx/model.onnx")
_DEFAULT_MAX_TOKENS = 512
# Tokenizers without a limit say 1e30.
_MOST_TOKENS = 32_768
# Positions of these begin behind the padding's, so two of the table cannot be used.
_OFFSET_POSITIONS = ("roberta", "camembert", "mpnet")


@dataclass(frozen=True, slots=True)
class CrossEncoderFiles:
    """What a cross-encoder is loaded from.

    Attributes:
        tokenizer: The `tokenizer.json`.
        graph: The ONNX file.
        max_tokens: The longest input, question and passage and what separates them.
        pad_id: The token that fills up a batch.
    """

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
        SettingsError: The folder or a file in it is missing, or it is not clear which one is meant.
    """
    if folder is None:
        raise SettingsError("`rerank.model_dir` is empty; name the folder that holds tokenizer.json and the ONNX file")
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.is_file():
        raise SettingsError(
            f"`rerank.model_dir` is {str(folder)!r}, which holds no tokenizer.json; name another folder"
        )
    config = _read(folder / "config.json")
    limits = (_model_limit(config), _whole(_read(folder / "tokenizer_config.json").get("model_max_length")))
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


def _model_limit(config: Mapping[str, Any]) -> int:
    limit = _whole(config.get("max_position_embeddings"))
    is_offset = any(kind in str(config.get("model_type", "")) for kind in _OFFSET_POSITIONS)
    return max(limit - 2, 0) if is_offset else limit


def _whole(value: object) -> int:
    return int(value) if isinstance(value, int | float) and 0 < value < 1e9 else 0


def _read(path: Path) -> Mapping[str, Any]:
    """Return a JSON file's fields; none if it is not there, since everything in it has a default."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{str(path)!r} cannot be read: {error}; put the model's own file there") from error
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
