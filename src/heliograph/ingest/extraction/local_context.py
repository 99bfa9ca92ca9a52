"""What the reading of a chunk depends on besides its text, headings and its document's title: its *context*.

The chunks of a document in, one short string per chunk out. It says whether the chunk opens the document, and for
which short names in it another chunk has the full name ("weber" for "Anna Weber"). Nothing else of the document
matters, so a chunk whose context is the same reads the same, whatever else was changed. Linear in the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from heliograph.models import Chunk
from heliograph.text.name_cues import COMMON_WORDS, GIVEN_NAMES

__all__ = ["ChunkContext", "chunk_contexts"]

_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][^\W\d_]+(?:[-'’][^\W\d_]+)*"
_FULL_NAME = re.compile(
    rf"(?<!\w){_CAPITAL}(?: [^\W\d_]\.| {_CAPITAL})?(?: (?:van|von|de|del|di|da))? {_CAPITAL}(?!\w)"
)
_WORD = re.compile(rf"(?<!\w){_CAPITAL}")
_FIRST = "first"


@dataclass(frozen=True, slots=True)
class ChunkContext:
    """A context, read.

    Attributes:
        opens_document: Whether the chunk is the first of its document.
        full_names: Full names of persons by their surnames in lower case.
    """

    opens_document: bool
    full_names: dict[str, str]

    @classmethod
    def of(cls, context: str) -> ChunkContext:
        """Read what `chunk_contexts` wrote."""
        lines = context.split("\n")
        return cls(_FIRST in lines, dict(line.split("\t") for line in lines if "\t" in line))


def chunk_contexts(chunks: Sequence[Chunk]) -> list[str]:
    """Return the context of every chunk of a document.

    Args:
        chunks: All chunks of the document, in order; of a part of them, the contexts are of that part.
    """
    introduced = [dict(_introduced(chunk.text)) for chunk in chunks]
    known: dict[str, dict[str, None]] = {}
    for names in introduced:
        for surname, name in names.items():
            known.setdefault(surname, {})[name] = None
    # A surname that two persons bear stands for neither of them where neither is named.
    sure = {surname: next(iter(names)) for surname, names in known.items() if len(names) == 1}
    return ["\n".join(_lines(chunk, own, sure)) for chunk, own in zip(chunks, introduced, strict=True)]


def _lines(chunk: Chunk, own: Iterable[str], sure: dict[str, str]) -> Iterator[str]:
    if chunk.position == 0:
        yield _FIRST
    if sure:
        words = {word.lower() for word in _WORD.findall(chunk.text)}
        yield from (f"{surname}\t{sure[surname]}" for surname in sorted(words.intersection(sure).difference(own)))


def _introduced(text: str) -> Iterator[tuple[str, str]]:
    """Yield surname and full name of the persons that a text names in full."""
    for match in _FULL_NAME.finditer(text):
        words = match.group().split()
        surname = words[-1].lower()
        if words[0].lower() in GIVEN_NAMES and surname not in COMMON_WORDS and surname not in GIVEN_NAMES:
            yield surname, match.group()
