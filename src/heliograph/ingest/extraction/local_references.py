"""What "he", "it", "the film", "他" and "该公司" stand for: what is spoken of, or the person named last.

The sentences of a chunk with the entities in them in, references out: places that mean an entity without naming it.
The rules are those of the commonest case (a section speaks of its subject; a person is spoken of until another is
named); where they do not decide, there is no reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from heliograph.ingest.extraction.local_occurrences import Occurrence, Topic
from heliograph.text.language import HAN
from heliograph.text.phrases import SentenceReading

__all__ = ["references"]

_PRONOUN = re.compile(
    r"\b(?:(?P<person>[Hh]e|[Ss]he|[Hh]is|[Hh]er|[Hh]im|[Hh]imself|[Hh]erself)|(?P<thing>[Ii]ts?|[Tt]hey|[Tt]heir)"
    r"|[Tt]h(?:e|is) (?P<noun>[a-z][\w-]{2,20}))\b"
)
_HAN_PRONOUN = re.compile(
    rf"(?P<person>[他她](?!们))|(?P<thing>它|其(?![他它余实中次间])|该(?=[{HAN}])|本(?=[书片剧作站校公市县镇]))"
)
_REACH = 120


def references(
    text: str,
    sentences: Sequence[SentenceReading],
    occurrences: Sequence[Occurrence],
    topics: Sequence[Topic],
    type_of: Callable[[str], str],
) -> Iterator[Occurrence]:
    """Yield the references of a chunk, at most one per sentence.

    Args:
        text: The chunk's text.
        sentences: Its sentences.
        occurrences: The entities in them, in order.
        topics: Per sentence what is spoken of.
        type_of: Gives the type of an entity by its key.
    """
    named: dict[int, list[Occurrence]] = {}
    for occurrence in occurrences:
        named.setdefault(occurrence.sentence, []).append(occurrence)
    person = ("", "")
    before = Topic()
    for index, (sentence, topic) in enumerate(zip(sentences, topics, strict=True)):
        person, before = person if topic == before else ("", ""), topic
        here = named.get(index, ())
        found = _find(text, sentence)
        meant = _meant(found, topic, person, type_of) if found else ("", "")
        if found and meant[0] and all(occurrence.key != meant[0] for occurrence in here):
            yield Occurrence(*meant, index, found.start(), found.end())
        # Who opens a sentence is who the next one speaks of.
        opener = next((one for one in here if type_of(one.key) == "person"), None)
        person = (opener.key, opener.name) if opener else person


def _find(text: str, sentence: SentenceReading) -> re.Match[str] | None:
    end = min(sentence.end, sentence.start + _REACH)
    if text[sentence.start : end].isascii():
        return _PRONOUN.search(text, sentence.start, end)
    return _HAN_PRONOUN.search(text, sentence.start, end) or _PRONOUN.search(text, sentence.start, end)


def _meant(
    found: re.Match[str],
    topic: Topic,
    person: tuple[str, str],
    type_of: Callable[[str], str],
) -> tuple[str, str]:
    parts: Mapping[str, str | None] = found.groupdict()
    subject = (topic.key, topic.name)
    kind = type_of(topic.key) if topic.key else ""
    if parts.get("noun"):
        return subject if parts["noun"] in topic.nouns else ("", "")
    if parts["person"]:
        return subject if kind == "person" else person if person[0] else subject if kind == "unknown" else ("", "")
    return subject if kind and kind != "person" else ("", "")
