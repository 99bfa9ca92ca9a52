"""The modes of a question: rows of one table, each naming the channels that it searches.

The rules of every mode are those of its channels; nothing else in the query room asks which mode it is in, save
what is printed. Results of several channels are merged round robin in the order of the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from heliograph.query.retrieved import Mode

__all__ = ["Channel", "channels_of"]


class Channel(StrEnum):
    """A way of searching."""

    ENTITY = "entity"
    RELATION = "relation"
    VECTOR = "vector"


_MODES: Mapping[Mode, tuple[Channel, ...]] = {
    Mode.LOCAL: (Channel.ENTITY,),
    Mode.GLOBAL: (Channel.RELATION,),
    Mode.HYBRID: (Channel.ENTITY, Channel.RELATION),
    Mode.MIX: (Channel.ENTITY, Channel.RELATION, Channel.VECTOR),
    Mode.NAIVE: (Channel.VECTOR,),
    Mode.BYPASS: (),
}


def channels_of(mode: Mode) -> tuple[Channel, ...]:
    """Return what a mode searches, in the order of merging."""
    return _MODES[mode]
