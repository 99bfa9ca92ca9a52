"""Small texts about machines, and an extractor that reads back what they spell out; both without cost.

A text is paragraphs of sentences, one a line, of three kinds: `A is a pump, it runs hot.`, `A feeds B, by pipe.` and
`A is also called B.`. Names come from a small pool in several spellings, so that documents share most entities.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable, Sequence

from heliograph.extraction.base import Extractor, ignore_progress
from heliograph.ids import clean_name, mention_rank
from heliograph.models import AliasMention, Chunk, Document, EntityMention, Extraction, RelationMention

__all__ = ["NAMES", "SentenceExtractor", "changed_text", "draw_text"]

_NOUNS = ("pump", "valve", "sensor", "relay", "motor", "panel", "turbine", "antenna")
_PLACES = ("North", "South", "Harbour", "Roof")
_PLACED = tuple(f"{place} {noun}" for place in _PLACES for noun in _NOUNS)
NAMES = (*_PLACED, "north PUMP", "Roof-relay", "南泵", "Panel")
_TYPES = ("machine", "device", "part")
_VERBS = ("feeds", "controls", "replaces")
_DETAILS = ("it runs hot", "since the spring", "as the log says", "twice a day", "without a spare", "by an old pipe")

_ENTITY = re.compile(r"(.+?) is a (\w+), (.+)\.")
_RELATION = re.compile(rf"(.+?) ({'|'.join(_VERBS)}) (.+?), (.+)\.")
_ALIAS = re.compile(r"(.+?) is also called (.+)\.")


class SentenceExtractor(Extractor):
    """Finds what each line of a chunk says.

    Args:
        delay_seconds: How long one call seems to take at the most; 0 does not wait at all.
    """

    def __init__(self, delay_seconds: float = 0.0) -> None:
        self._delay_seconds = delay_seconds

    @property
    def name(self) -> str:
        """See `Extractor`."""
        return "sentences"

    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        """See `Extractor`."""
        if self._delay_seconds:
            await asyncio.sleep(random.random() * self._delay_seconds)
        for _ in chunks:
            on_chunk()
        return [_read(document, chunk) for chunk in chunks]


def draw_text(state: random.Random) -> str:
    """Return a text of one to five paragraphs, every second one with a heading."""
    heading = [f"# {state.choice(NAMES)}"] if state.random() < 0.5 else []
    return "\n\n".join([*heading, *(_paragraph(state) for _ in range(state.randint(1, 5)))])


def changed_text(text: str, state: random.Random) -> str:
    """Return a text with one paragraph replaced, added, taken away or moved; never an empty one."""
    paragraphs = text.split("\n\n")
    place = state.randrange(len(paragraphs))
    change = state.randrange(4)
    if change == 0:
        paragraphs[place] = _paragraph(state)
    elif change == 1:
        paragraphs.insert(place, _paragraph(state))
    elif change == 2 and len(paragraphs) > 1:
        del paragraphs[place]
    else:
        state.shuffle(paragraphs)
    return "\n\n".join(paragraphs)


def _paragraph(state: random.Random) -> str:
    return "\n".join(_sentence(state) for _ in range(state.randint(1, 4)))


def _sentence(state: random.Random) -> str:
    name, other = state.sample(NAMES, 2)
    kind = state.random()
    if kind < 0.08:
        return f"{name} is also called {other}."
    if kind < 0.5:
        return f"{name} is a {state.choice(_TYPES)}, {state.choice(_DETAILS)}."
    return f"{name} {state.choice(_VERBS)} {other}, {state.choice(_DETAILS)}."


def _read(document: Document, chunk: Chunk) -> Extraction:
    entities: dict[str, EntityMention] = {}
    relations: list[RelationMention] = []
    aliases: list[AliasMention] = []
    rank = mention_rank(document.id, chunk.position, is_subject=False)

    def mention(name: str, type_: str = "", description: str = "") -> str:
        name = clean_name(name)
        if type_ or name not in entities:
            entities[name] = EntityMention(chunk.id, name, type_, description, rank)
        return name

    for line in chunk.text.splitlines():
        if found := _ALIAS.fullmatch(line):
            aliases.append(AliasMention(chunk.id, mention(found[1]), clean_name(found[2])))
        elif found := _ENTITY.fullmatch(line):
            mention(found[1], found[2], found[3])
        elif found := _RELATION.fullmatch(line):
            ends = mention(found[1]), mention(found[3])
            relations.append(RelationMention(chunk.id, *ends, (found[2],), found[4], 1.0, rank))
    return Extraction(chunk.id, "sentences", tuple(entities.values()), tuple(relations), aliases=tuple(aliases))
