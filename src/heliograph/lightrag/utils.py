"""Names that programs import from LightRAG's `utils`: the wrapper of an embedding function, tokenizers, ids, logging.

Texts are counted in tokens of `o200k_base` without a download; any object with `encode` and `decode` may replace it.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
import warnings
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from hashlib import md5
from html import unescape
from math import isfinite
from types import SimpleNamespace
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

import heliograph.lightrag.constants as constants
from heliograph.documents.markdown import clean_text
from heliograph.ids import clean_name, track_id
from heliograph.settings import environment_variable
from heliograph.text.tokens import decode, encode

P = ParamSpec("P")
R = TypeVar("R")

logger = logging.getLogger("lightrag")
_UNREADABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_told: set[str] = set()


def warn_once(text: str) -> None:
    """Warn about a difference from LightRAG, once per process."""
    if text not in _told:
        _told.add(text)
        warnings.warn(text, UserWarning, stacklevel=3)


def retired(*names: str) -> Callable[[type[R]], type[R]]:
    """Let a class accept keywords that LightRAG 1.5.7 no longer has; those that are set warn, without effect.

    Programs for its older versions use them, as its own examples did.
    """

    def accept(kind: type[R]) -> type[R]:
        make = kind.__init__

        @wraps(make)
        def make_without(self: R, *args: Any, **given: Any) -> None:
            for name in names:
                if given.pop(name, None) is not None:
                    warn_once(f"{kind.__name__}({name}=...) has no effect here; see docs/lightrag-api.md")
            make(self, *args, **given)

        kind.__init__ = make_without
        return kind

    return accept


def get_env_value(env_key: str, default: Any, value_type: type = str, special_none: bool = False) -> Any:
    """Return an environment variable converted to a type, or the default if it is unset or cannot be converted.

    A list is written as JSON; a number that is not finite does not count.
    """
    value = environment_variable(env_key)
    if value is None or (special_none and value == "None"):
        return default if value is None else None
    if value_type is bool:
        return value.strip().lower() in ("true", "1", "yes", "t", "on")
    try:
        found = json.loads(value) if value_type is list else value_type(value)
    except (TypeError, ValueError):
        return default
    is_one = isinstance(found, list) if value_type is list else not isinstance(found, float) or isfinite(found)
    return found if is_one else default


def lightrag_number(name: str, default: float) -> float:
    """Return a number of LightRAG's environment, or the default if it is unset or no number."""
    return get_env_value(name, default, float)


def default_number(name: str, kind: type[float] = int) -> Any:
    """Return a field whose default is a number of LightRAG's environment, else LightRAG's constant."""
    return field(default_factory=lambda: kind(lightrag_number(name, getattr(constants, f"DEFAULT_{name}"))))


@dataclass
class EmbeddingFunc:
    """An embedding function with its properties.

    Attributes:
        func: From a list of texts to an array, `(n, embedding_dim)`; async.
        max_token_size: Longest text, passed to `func` if it accepts `max_token_size`.
        model_name: The name by which a workspace identifies its embedding model.
        supports_asymmetric: Whether `func` accepts `context`, which is `query` or `document`.
    """

    embedding_dim: int
    func: Callable[..., Any]
    max_token_size: int | None = None
    send_dimensions: bool = False
    model_name: str | None = None
    supports_asymmetric: bool = False

    def __post_init__(self) -> None:
        # The settings of the outermost wrapper count.
        while isinstance(self.func, EmbeddingFunc):
            self.func = self.func.func

    async def __call__(self, *args: Any, **kwargs: Any) -> NDArray[np.float32]:
        """Return the vectors of the given texts.

        Raises:
            ValueError: Their number or length is wrong.
        """
        if self.send_dimensions:
            kwargs["embedding_dim"] = self.embedding_dim
        if not self.supports_asymmetric:
            kwargs.pop("context", None)
        if self.max_token_size is not None and "max_token_size" in inspect.signature(self.func).parameters:
            kwargs.setdefault("max_token_size", self.max_token_size)
        given = self.func(*args, **kwargs)
        vectors = np.asarray(await given if inspect.isawaitable(given) else given)
        if vectors.size % self.embedding_dim:
            raise ValueError(
                f"the embedding function gave {vectors.size} numbers, which are no vectors of length "
                f"{self.embedding_dim}; set embedding_dim to the length of its vectors"
            )
        count = vectors.size // self.embedding_dim
        if args and isinstance(args[0], list | tuple) and count != len(cast("Sequence[str]", args[0])):
            texts = len(cast("Sequence[str]", args[0]))
            raise ValueError(f"the embedding function gave {count} vectors for {texts} texts; return one a text")
        return vectors


def wrap_embedding_func_with_attrs(**kwargs: Any) -> Callable[[Callable[..., Any]], EmbeddingFunc]:
    """Return a decorator that makes an `EmbeddingFunc` of a function; takes its fields except `func`."""

    def wrap(function: Callable[..., Any]) -> EmbeddingFunc:
        return EmbeddingFunc(func=function, **kwargs)

    return wrap


class TokenizerInterface(Protocol):
    """The interface of tokenizers."""

    def encode(self, content: str) -> list[int]:
        """Return the tokens of a text."""
        ...

    def decode(self, tokens: list[int]) -> str:
        """Return the text of token ids."""
        ...


class Tokenizer:
    """A tokenizer by name."""

    def __init__(self, model_name: str, tokenizer: TokenizerInterface) -> None:
        self.model_name = model_name
        self.tokenizer = tokenizer

    def encode(self, content: str) -> list[int]:
        """Return the tokens of a text."""
        return self.tokenizer.encode(content)

    def decode(self, tokens: list[int]) -> str:
        """Return the text of token ids."""
        return self.tokenizer.decode(tokens)


class TiktokenTokenizer(Tokenizer):
    """Tokens of `o200k_base`, whatever model is named: those of `gpt-4o` and `gpt-4o-mini`, close for all others."""

    def __init__(self, model_name: str = "gpt-4o-mini") -> None:
        # Its tables are part of a package: nothing is downloaded.
        super().__init__(model_name, cast("TokenizerInterface", SimpleNamespace(encode=encode, decode=decode)))


def compute_mdhash_id(content: str, prefix: str = "") -> str:
    """Return a prefix and the MD5 of a text, as LightRAG makes its ids."""
    return prefix + md5(content.encode("utf-8", "ignore"), usedforsecurity=False).hexdigest()


def compute_args_hash(*args: Any) -> str:
    """Return the MD5 of the values, each preceded by its length if there are several, as LightRAG makes its keys."""
    words = [str(arg) for arg in args]
    return compute_mdhash_id("".join(words if len(words) < 2 else (f"{len(word)}:{word}" for word in words)))


def generate_track_id(prefix: str = "upload") -> str:
    """Return a unique name for a call of `ainsert`."""
    return track_id(prefix)


def sanitize_text_for_encoding(text: str, replacement_char: str = "") -> str:
    """Return a text with HTML entities decoded, without invalid characters and surrounding white space."""
    return clean_text(_UNREADABLE.sub(replacement_char, unescape(text.strip()))).strip()


def normalize_entity_name(input_text: str) -> str:
    """Return a name as it is stored; empty if it is no valid name."""
    return clean_name(input_text)


def cosine_similarity(v1: Any, v2: Any) -> float:
    """Return the cosine of two vectors; 0 if one of them has length 0."""
    one, other = np.asarray(v1, np.float64), np.asarray(v2, np.float64)
    length = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / length) if length else 0.0


def always_get_an_event_loop() -> asyncio.AbstractEventLoop:
    """Return this thread's event loop, a new one if it has none or its loop is closed."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        pass
    with warnings.catch_warnings():
        # If this thread has no loop, asyncio warns that it makes one, or fails.
        warnings.simplefilter("error", DeprecationWarning)
        with suppress(RuntimeError, DeprecationWarning):
            loop = asyncio.get_event_loop()
            if not loop.is_closed():
                return loop
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    return loop


def blocking(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[Any, P], R]:
    """Return a method for code that is not async: the same without the `a` before its name.

    In another thread, such as one of `run_in_executor`, it runs on the event loop that uses the instance.

    Raises:
        RuntimeError: An event loop runs in this thread, and `nest_asyncio` does not make it re-entrant; use the method
            with an `a` before its name there.
    """
    name = method.__name__.removeprefix("a")

    @wraps(method)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        # Looked up by name, so that a subclass's override of the async method is called.
        coroutine = getattr(self, method.__name__)
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            if (elsewhere := self.running_loop) is not None:
                return asyncio.run_coroutine_threadsafe(coroutine(*args, **kwargs), elsewhere).result()
            return always_get_an_event_loop().run_until_complete(coroutine(*args, **kwargs))
        if hasattr(running, "_nest_patched"):
            return running.run_until_complete(coroutine(*args, **kwargs))
        raise RuntimeError(
            f"{name}() cannot be called while an event loop runs in this thread; await a{name}(...) there"
        )

    call.__name__, call.__qualname__ = name, f"{method.__qualname__.rpartition('.')[0]}.{name}"
    return call


def setup_logger(
    logger_name: str,
    level: str = "INFO",
    add_filter: bool = False,  # noqa: ARG001 (LightRAG's, for its service)
    log_file_path: str | None = None,
    enable_file_logging: bool = True,
) -> None:
    """Make a logger write to standard error and, if a path is given, to that file.

    `add_filter` is ignored.
    """
    told = logging.getLogger(logger_name)
    told.setLevel(level)
    told.propagate = False
    for handler in [*told.handlers]:
        told.removeHandler(handler)
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if enable_file_logging and log_file_path:
        handlers.append(logging.FileHandler(log_file_path, encoding="utf-8"))
    for handler in handlers:
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        told.addHandler(handler)


def set_verbose_debug(enabled: bool) -> None:
    """Turn detailed logging on or off."""
    logger.setLevel(logging.DEBUG if enabled else logging.INFO)


def verbose_debug(msg: str, *args: Any, **kwargs: Any) -> None:
    """Log a message at debug level."""
    logger.debug(msg, *args, **kwargs)


class TokenTracker:
    """Adds up the tokens of model functions, which call `add_usage` with the count of their service."""

    def __init__(self) -> None:
        self.reset()

    def __enter__(self) -> TokenTracker:
        self.reset()
        return self

    def __exit__(self, *_error: object) -> None:
        print(self)  # noqa: T201 (as LightRAG's does)

    def reset(self) -> None:
        """Reset the counts to zero."""
        self.prompt_tokens = self.completion_tokens = self.total_tokens = self.call_count = 0

    def add_usage(self, token_counts: dict[str, int]) -> None:
        """Add one call: `prompt_tokens`, `completion_tokens`, `total_tokens`."""
        prompt, completion = token_counts.get("prompt_tokens", 0), token_counts.get("completion_tokens", 0)
        self.prompt_tokens += prompt
        self.completion_tokens += completion
        self.total_tokens += token_counts.get("total_tokens", prompt + completion)
        self.call_count += 1

    def get_usage(self) -> dict[str, int]:
        """Return the tokens spent."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.total_tokens,
            "call_count": self.call_count,
        }

    def __str__(self) -> str:
        usage = self.get_usage()
        return (
            f"LLM call count: {usage['call_count']}, Prompt tokens: {usage['prompt_tokens']}, "
            f"Completion tokens: {usage['completion_tokens']}, Total tokens: {usage['total_tokens']}"
        )
