"""The chat function of each role: extraction, keywords, answers; it may change while a program runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from heliograph.calls.limit import PriorityLimiter


@dataclass(frozen=True)
class RoleSpec:
    """One of the roles that may have a model of its own."""

    name: str
    env_prefix: str
    queue_name: str


ROLES = tuple(RoleSpec(name, name.upper(), f"{name} LLM func") for name in ("extract", "keyword", "query", "vlm"))
# Metadata keys with these words are left out of a role's description.
_SECRETS = ("key", "secret", "password", "token")


@dataclass
class RoleLLMConfig:
    """The overrides of one role; None keeps the value common to all roles."""

    func: Any = None
    kwargs: dict[str, Any] | None = None
    max_async: int | None = None
    timeout: int | None = None
    metadata: dict[str, Any] | None = None


@dataclass(slots=True)
class ChatRole:
    """A function, its keyword arguments, and the limits of its calls; None means the limit common to all roles."""

    function: Callable[..., Any]
    keywords: Mapping[str, Any]
    has_own_keywords: bool = False
    max_async: int | None = None
    timeout_seconds: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    limit: PriorityLimiter | None = None


class ChatRoles:
    """The function of each role: a common one, with its arguments and limits, and the overrides of some roles.

    Raises:
        ValueError: There is no such role.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        keywords: Mapping[str, Any],
        max_async: int,
        timeout_seconds: float,
        own: Mapping[str, RoleLLMConfig | Mapping[str, Any]],
    ) -> None:
        self.builder: Callable[[str, dict[str, Any]], tuple[Callable[..., Any], dict[str, Any] | None]] | None = None
        self._max_async, self._timeout_seconds = max_async, timeout_seconds
        self._roles = {role.name: ChatRole(function, keywords) for role in ROLES}
        for name, given in own.items():
            told = given if isinstance(given, RoleLLMConfig) else RoleLLMConfig(**given)
            self.role(name).metadata |= told.metadata or {}
            self.change(name, told.func, told.kwargs, told.max_async, told.timeout)

    @property
    def longest_seconds(self) -> float:
        """The longest time that a call of any role may take."""
        return max(self._timeout_seconds, *(role.timeout_seconds or 0 for role in self._roles.values()))

    def role(self, name: str) -> ChatRole:
        """Return one role; raises `ValueError` for an unknown name."""
        found = self._roles.get(name.strip().lower())
        if found is None:
            raise ValueError(f"there is no role {name!r}; there are {', '.join(sorted(self._roles))}")
        return found

    def change(
        self,
        name: str,
        model_func: Callable[..., Any] | None = None,
        model_kwargs: Mapping[str, Any] | None = None,
        max_async: int | None = None,
        timeout: float | None = None,
        **metadata: Any,
    ) -> None:
        """Change the configuration of one role. `metadata` goes to the builder, which makes a function of it.

        Raises:
            TypeError: `model_func` cannot be called.
            ValueError: There is no such role, or there is metadata and neither a function nor a builder.
        """
        role = self.role(name)
        told = role.metadata | {key: value for key, value in metadata.items() if value is not None}
        if model_func is not None and not callable(model_func):
            raise TypeError(f"model_func is {model_func!r}, which cannot be called; give a function")
        if told != role.metadata:
            if self.builder is not None:
                model_func, built = self.builder(name, told)
                model_kwargs = built if model_kwargs is None else model_kwargs
            elif model_func is None:
                raise ValueError("no builder is registered: give model_func, or call register_role_llm_builder first")
        role.metadata = told
        role.function = model_func or role.function
        if model_kwargs is not None:
            role.keywords, role.has_own_keywords = model_kwargs, True
        if max_async is not None:
            role.max_async, role.limit = max_async, PriorityLimiter(max_async)
        role.timeout_seconds = role.timeout_seconds if timeout is None else timeout

    def told(self, name: str) -> dict[str, Any]:
        """Describe one role, without its secrets."""
        role = self.role(name)
        shown = {key: value for key, value in role.metadata.items() if not any(word in key for word in _SECRETS)}
        return {
            **{key: shown.get(key) for key in ("binding", "model", "host")},
            "is_cross_provider": shown.get("is_cross_provider", False),
            "max_async": role.max_async or self._max_async,
            "timeout": role.timeout_seconds or self._timeout_seconds,
            "has_model_kwargs": role.has_own_keywords,
            "metadata": shown,
        }
