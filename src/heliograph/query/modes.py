"""The modes of a question: rows of one table, each naming the channels that it searches.

The rules of every mode are those of its channels; nothing else in the query room asks which mode it is in, save
what is printed. Results of LightRAG's channels (entity, relation, vector) are merged round robin in the order of the
row; as soon as a row has a channel beyond those, its chunks are ranked by one fused search
(`heliograph.query.fusion.search`), and entities and relations are those of its evidence, with those of given keywords.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from heliograph.query.models import Mode


class Channel(StrEnum):
    """A way of searching."""

    ENTITY = "entity"
    RELATION = "relation"
    VECTOR = "vector"
    KEYWORD = "keyword"
    BRIDGE = "bridge"
    GRAPH = "graph"


FUSED_CHANNELS = (Channel.VECTOR, Channel.KEYWORD, Channel.BRIDGE, Channel.GRAPH)

_MODES: Mapping[Mode, tuple[Channel, ...]] = {
    Mode.LOCAL: (Channel.ENTITY,),
    Mode.GLOBAL: (Channel.RELATION,),
    Mode.HYBRID: (Channel.ENTITY, Channel.RELATION),
    Mode.MIX: (Channel.ENTITY, Channel.RELATION, Channel.VECTOR),
    Mode.NAIVE: (Channel.VECTOR,),
    Mode.FUSION: (Channel.ENTITY, Channel.RELATION, *FUSED_CHANNELS),
    Mode.AUTO: (Channel.ENTITY, Channel.RELATION, *FUSED_CHANNELS),
    Mode.BYPASS: (),
}


def channels_of(mode: Mode) -> tuple[Channel, ...]:
    """Return what a mode searches, in the order of merging."""
    return _MODES[mode]


def is_fused(channels: Iterable[Channel]) -> bool:
    """Return whether chunks found through these channels are ranked by one fused search."""
    return any(channel in FUSED_CHANNELS and channel is not Channel.VECTOR for channel in channels)


def is_understood(mode: Mode) -> bool:
    """Return whether a mode asks first what kind of question it is, and searches accordingly."""
    return mode is Mode.AUTO
