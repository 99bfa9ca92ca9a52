"""What a migration says of itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

__all__ = ["MigratedKind", "MigrationProgress", "MigrationReport"]

# Told what is being copied or compared, and how much of it has been.
MigrationProgress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class MigratedKind:
    """One kind of things that both stores now have alike.

    Attributes:
        kind: Of what.
        count: How many there are.
        checksum: Over all of them, 16 hexadecimal digits; the same in both stores.
    """

    kind: str
    count: int
    checksum: str


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What was moved.

    Attributes:
        kinds: Everything that was compared.
        copied: Things written by this run; fewer than there are where an earlier run had been broken off.
        remade_texts: Chunks and entities whose full text was stale in the source and is right in the target.
        data_version: Of the target.
        lags: Commits that each projection of the target is behind, by its name.
    """

    kinds: tuple[MigratedKind, ...]
    copied: int
    remade_texts: int
    data_version: int
    lags: Mapping[str, int] = field(default_factory=dict[str, int])
