"""Extractors: the contract (chunks in, one `Extraction` per chunk out), the form of extractions, and the choice of one.

An extractor reads; it neither stores nor merges. It passes names through `clean_name`, takes ranks from `mention_rank`,
and lists both ends of every relation among the entities of its chunk.

Extractions from every source (extractors, supplied graphs, imports, archives) pass through `canonical_extraction`,
which makes them clean, distinct, sorted, complete and correctly placed. So a rule about which mentions to keep belongs
there. A rule that drops an entity must drop its relations and aliases too, before `unlisted_ends` runs: a relation's
end that is not listed comes back as an entity of unknown type. `with_introduced_aliases` adds the aliases that a
passage itself introduces.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module

from heliograph.chat.base import ChatModel
from heliograph.documents.markdown import clean_text
from heliograph.errors import SettingsError
from heliograph.ids import clean_name, entity_key, is_subject_rank, mention_rank, moved_rank
from heliograph.models import AliasMention, Chunk, Document, EntityMention, Extraction, RelationMention
from heliograph.settings import IngestSettings
from heliograph.text.phrases import SentenceReading, find_abbreviations
from heliograph.text.sentences import sentence_spans


def ignore_progress() -> None:
    """Do nothing; the default progress callback."""


class Extractor(ABC):
    """Reads mentions in chunks. Implementations must be safe to call from many tasks at once."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The extractor's identity, stored with its extractions; short, without spaces."""

    @abstractmethod
    async def extract(
        self, document: Document, chunks: Sequence[Chunk], on_chunk: Callable[[], None] = ignore_progress
    ) -> list[Extraction]:
        """Read the chunks of one document.

        Args:
            document: The document they belong to; its title may be empty.
            chunks: Chunks of that document in order, not necessarily all of them; none gives an empty list.
            on_chunk: Called once per chunk as soon as it is read, from the event loop's thread.

        Returns:
            One extraction per chunk, in the same order. A chunk that could not be read has `error` set and no
            mentions; the others are not affected.

        Raises:
            ModelError: The service as a whole failed (for example `ModelUnavailable`), so no chunk can be read.
        """

    def contexts(self, document: Document, chunks: Sequence[Chunk]) -> list[str]:  # noqa: ARG002
        """Return, per chunk, what its extraction depends on besides its text, its headings and the title.

        A chunk that stays must be read again when its context has changed; the same context gives the same extraction,
        so that an update ends where a fresh insert would. Takes CPU time in proportion to the text.

        Returns:
            One short string per chunk; empty for extractors that read each chunk by itself, which is the default.
        """
        return ["" for _ in chunks]

    async def extract_in_context(
        self,
        document: Document,
        chunks: Sequence[Chunk],
        contexts: Sequence[str],  # noqa: ARG002
        on_chunk: Callable[[], None] = ignore_progress,
    ) -> list[Extraction]:
        """Read some chunks of a document with the same result as reading all of them; see `extract`.

        Args:
            document: The document.
            chunks: The chunks to read, in order.
            contexts: The context of each, from `contexts`. The default implementation ignores them.
            on_chunk: See `extract`.
        """
        return await self.extract(document, chunks, on_chunk)


# Never outvotes another type.
UNKNOWN_TYPE = "unknown"
_MAX_WEIGHT = 1_000_000.0

EntityOrder = tuple[int, str, str, str, str]
RelationOrder = tuple[int, str, str, str, tuple[str, ...], str, float]


def entity_mention_order(mention: EntityMention) -> EntityOrder:
    """Return the sort key of an entity's mentions: rank, chunk, then content."""
    return (mention.rank, mention.chunk_id, mention.name, mention.type, mention.description)


def relation_mention_order(mention: RelationMention) -> RelationOrder:
    """Return the sort key of a relation's mentions: rank, chunk, then content."""
    return (
        *(mention.rank, mention.chunk_id, mention.source, mention.target),
        *(mention.keywords, mention.description, mention.weight),
    )


def canonical_extraction(extraction: Extraction) -> Extraction:
    """Return an extraction whose mentions are clean, distinct, sorted, and complete.

    Mentions without a name and relations of an entity with itself are dropped; an end of a relation that the chunk does
    not list becomes a mention of unknown type; a weight that is no positive number becomes 1.
    """
    entities: set[EntityMention] = set()
    for mention in extraction.entities:
        name, kind, said = clean_name(mention.name), clean_text(mention.type), clean_text(mention.description).strip()
        if (name, kind, said) != (mention.name, mention.type, mention.description):
            mention = replace(mention, name=name, type=kind, description=said, entity_id="")
        if name:
            entities.add(mention)
    relations: set[RelationMention] = set()
    for mention in extraction.relations:
        source, target = clean_name(mention.source), clean_name(mention.target)
        keywords, description = tuple(map(clean_text, mention.keywords)), clean_text(mention.description)
        weight = float(mention.weight)
        weight = min(weight, _MAX_WEIGHT) if math.isfinite(weight) and weight > 0 else 1.0
        clean = {"source": source, "target": target, "keywords": keywords, "description": description, "weight": weight}
        # A number of another library, such as NumPy's, equals its float, but no store accepts it.
        is_number = isinstance(mention.weight, float | int)  # pyright: ignore[reportUnnecessaryIsInstance]
        if not is_number or any(getattr(mention, name) != value for name, value in clean.items()):
            mention = replace(mention, **clean, source_id="", target_id="")
        if source and target and entity_key(source) != entity_key(target):
            relations.add(mention)
    in_order = sorted(relations, key=relation_mention_order)
    for name, relation in unlisted_ends(entities, in_order):
        entities.add(EntityMention(relation.chunk_id, name, UNKNOWN_TYPE, "", relation.rank))
    return replace(
        extraction,
        entities=tuple(sorted(entities, key=entity_mention_order)),
        relations=tuple(in_order),
        aliases=canonical_aliases(extraction.aliases),
    )


def unlisted_ends(
    entities: Iterable[EntityMention], relations: Iterable[RelationMention]
) -> Iterator[tuple[str, RelationMention]]:
    """Yield each end of the relations that no entity mention names, once, with the first relation that has it."""
    listed = {entity_key(mention.name) for mention in entities}
    for relation in relations:
        for name in (relation.source, relation.target):
            if (key := entity_key(name)) not in listed:
                listed.add(key)
                yield name, relation


def canonical_aliases(aliases: Iterable[AliasMention]) -> tuple[AliasMention, ...]:
    """Return alias mentions clean, distinct and sorted, without those whose two names are spellings of one name."""
    if not aliases:
        return ()
    clean = {AliasMention(m.chunk_id, clean_name(m.name), clean_name(m.alias)) for m in aliases}
    kept = (m for m in clean if m.name and m.alias and entity_key(m.name) != entity_key(m.alias))
    return tuple(sorted(kept, key=lambda m: (m.chunk_id, m.name, m.alias)))


def moved_extraction(extraction: Extraction, position: int) -> Extraction:
    """Return the extraction of a chunk that has moved to another position in its document."""
    return replace(
        extraction,
        entities=tuple(replace(m, rank=moved_rank(m.rank, position)) for m in extraction.entities),
        relations=tuple(replace(m, rank=moved_rank(m.rank, position)) for m in extraction.relations),
    )


def placed_extraction(extraction: Extraction, chunk_id: str, document_id: str, position: int) -> Extraction:
    """Return an extraction as if it had been read in a chunk of this id, at this position of this document.

    The entity ids of its mentions are cleared, because they are resolved when the extraction is committed.
    """
    ranks = {flag: mention_rank(document_id, position, is_subject=flag) for flag in (True, False)}
    return replace(
        extraction,
        chunk_id=chunk_id,
        entities=tuple(
            replace(m, chunk_id=chunk_id, rank=ranks[is_subject_rank(m.rank)], entity_id="")
            for m in extraction.entities
        ),
        relations=tuple(
            replace(m, chunk_id=chunk_id, rank=ranks[is_subject_rank(m.rank)], source_id="", target_id="")
            for m in extraction.relations
        ),
        aliases=tuple(replace(m, chunk_id=chunk_id) for m in extraction.aliases),
    )


# Aliases that a passage itself introduces: an acronym in brackets beside its expansion, or the other way round.
#
# Only those count that the letters confirm, since an alias holds in all documents: every letter of the acronym must
# begin a word of the expansion, in order, and only small words may be left over. "MQTT" after "Message Queuing
# Telemetry Transport" is one, "XML" after "Extensible Markup Language" is none. Aliases that chat models report come in
# through `chat`.

# Most passages have no acronym beside a bracket, so they need not be split into sentences.
_HINT = re.compile(r"[(（][A-Z][A-Za-z0-9&/.-]{1,11}[)）]|[A-Z][A-Za-z0-9&/.-]{1,11} ?[(（][^()（）\n]{4,80}[)）]")
_WORD = re.compile(r"[^\W_]+")
_SMALL_WORDS = frozenset(
    {"a", "an", "and", "as", "at", "by", "de", "del", "der", "des", "di", "du", "for", "from", "in", "la", "le", "of"}
    | {"on", "or", "per", "the", "to", "und", "van", "von", "with"}
)


def with_introduced_aliases(extraction: Extraction, chunk: Chunk) -> Extraction:
    """Return an extraction with the aliases that its chunk introduces; unchanged if it introduces none."""
    if not extraction.entities or not _HINT.search(chunk.text):
        return extraction
    text = chunk.text
    sentences = [SentenceReading(start, end, (), ()) for start, end in sentence_spans(text)]
    forms = ((text[slice(*short)], text[slice(*long)]) for short, long in find_abbreviations(text, sentences))
    found = tuple(AliasMention(chunk.id, long, short) for short, long in forms if _spells(short, long))
    return replace(extraction, aliases=canonical_aliases((*extraction.aliases, *found))) if found else extraction


def _spells(short: str, long: str) -> bool:
    """Return whether the letters of a short form are the first letters of the words of a long one."""
    letters = [character.casefold() for character in short if character.isalnum()]
    words = _WORD.findall(long)
    if len(letters) < 2 or not words or words[0].casefold()[0] != letters[0]:
        return False
    index = 0
    for word in words:
        if index < len(letters) and word.casefold()[0] == letters[index]:
            index += 1
        elif word.casefold() not in _SMALL_WORDS:
            return False
    return index == len(letters)


# The extractor of the settings. Its module is imported when one is made, because most processes only ask questions.


class NoExtractor(Extractor):
    """Returns an empty extraction per chunk, for workspaces that want no graph."""

    @property
    def name(self) -> str:
        return "none"

    async def extract(
        self,
        document: Document,  # noqa: ARG002 (nothing of it is read)
        chunks: Sequence[Chunk],
        on_chunk: Callable[[], None] = ignore_progress,
    ) -> list[Extraction]:
        for _ in chunks:
            on_chunk()
        return [Extraction(chunk.id, self.name) for chunk in chunks]


def choose_extractor(settings: IngestSettings, chat: ChatModel | None) -> Callable[[], Extractor]:
    """Return a factory for the extractor of the settings; raises `SettingsError` if it needs a chat model."""
    wanted = settings.extractor
    if wanted == "none":
        return NoExtractor
    if wanted == "chat" and chat is None:
        raise SettingsError("ingest.extractor is 'chat' but no chat model is configured; set chat.model, or use 'auto'")
    if wanted == "local" or chat is None:
        return lambda: import_module("heliograph.extraction.local").LocalExtractor()
    return lambda: import_module("heliograph.extraction.chat").ChatExtractor(chat, settings)
