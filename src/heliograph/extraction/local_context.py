"""Says what the reading of a chunk depends on besides its own text: its context, which the whole document decides.

The chunks of a document in, one short string per chunk out, and such strings back into `ChunkContext`s. A context says
whether the chunk opens the document, for which short names in it another chunk has the full name ("weber" for "Anna
Weber"), which of its words the document uses as labels, whether the document speaks of what its title names, and of a
German document, which words of the chunk it uses as names or as nouns. Nothing else of the document matters, so a chunk
whose context is the same reads the same, whatever else was changed. Linear in the document.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from heliograph.extraction.local_subjects import subjects_of
from heliograph.extraction.name_types import smallness
from heliograph.models import Chunk
from heliograph.text.analysis import HAN, LATIN_LANGUAGES, detect_language, word_list
from heliograph.text.german import GermanWords, german_words
from heliograph.text.labels import labels_of
from heliograph.text.name_spans import COMMON_WORDS, GIVEN_NAMES

_CAPITAL = r"[^\W\d_a-zß-öø-ÿ][^\W\d_]+(?:[-'’][^\W\d_]+)*"
_CAPITALISED_NAME = re.compile(
    rf"(?<!\w){_CAPITAL}(?: [^\W\d_]\.| {_CAPITAL})?(?: (?:van|von|de|del|di|da))? {_CAPITAL}(?!\w)"
)
_CAPITALISED_WORD = re.compile(rf"(?<!\w){_CAPITAL}")
_HAN = re.compile(rf"[{HAN}]")
_SMALL = word_list("small_words")
_FIRST = "first"
_GERMAN = "de:"
_IN = "in:"
_LABELS = "labels:"
_UNSAID = "unsaid"
# Characters of a sentence beside the name that it speaks of.
_LEAST_SAID, _LEAST_SAID_IN_HAN = 20, 6
_BELOW_TITLE = 4000


@dataclass(frozen=True, slots=True)
class ChunkContext:
    """A context, read.

    Attributes:
        opens_document: Whether the chunk is the first of its document.
        full_names: Full names of persons by their surnames in lower case.
        german: What a German document says of words in the chunk; None in other languages.
        language: What the document is in as a whole, if headings are read otherwise in it than in English.
        labels: Words of the chunk that the document has with a capital and without.
        says_title: Whether the document speaks of what its title names, and has it not only as a heading.
    """

    opens_document: bool
    full_names: dict[str, str]
    german: GermanWords | None = None
    language: str = ""
    labels: frozenset[str] = frozenset()
    says_title: bool = True

    @classmethod
    def of(cls, context: str) -> ChunkContext:
        """Read what `chunk_contexts` wrote."""
        lines = context.split("\n")
        german = (line.removeprefix(_GERMAN).split("|") for line in lines if line.startswith(_GERMAN))
        return cls(
            _FIRST in lines,
            dict(line.split("\t") for line in lines if "\t" in line),
            next((GermanWords(*(frozenset(words.split()) for words in parts)) for parts in german), None),
            next((line.removeprefix(_IN) for line in lines if line.startswith(_IN)), ""),
            frozenset(next((line.removeprefix(_LABELS) for line in lines if line.startswith(_LABELS)), "").split()),
            _UNSAID not in lines,
        )


def chunk_contexts(chunks: Sequence[Chunk], language: str = "", title: str = "") -> list[str]:
    """Return the context of every chunk of a document.

    Args:
        chunks: All chunks of the document, in order; of a part of them, the contexts are of that part.
        language: The language of the document, stated or detected, as an ISO 639-1 code; empty where nobody knows it.
        title: The title of the document; empty where nobody gave it one.
    """
    text = "\n".join(chunk.text for chunk in chunks)
    language = language[:2].lower()
    language = language if language in LATIN_LANGUAGES and language != "en" else detect_language(text)
    is_german = language == "de"
    german = german_words(text) if is_german else None
    labels = labels_of(text, language) if is_german else labels_of(text, language, smallness)
    named = () if language == "en" else subjects_of(title, language=language, below=text[:_BELOW_TITLE])
    lower = text.lower() if named else ""
    is_unsaid = bool(named) and not any(_is_title_case(name) or _speaks_of(lower, name.lower()) for name, _ in named)
    # Per chunk, the persons that it names in full, by surname.
    introduced: list[dict[str, str]] = []
    known: dict[str, dict[str, None]] = {}
    for chunk in chunks:
        own: dict[str, str] = {}
        for match in _CAPITALISED_NAME.finditer(chunk.text):
            words = match.group().split()
            surname = words[-1].lower()
            if words[0].lower() in GIVEN_NAMES and surname not in COMMON_WORDS and surname not in GIVEN_NAMES:
                own[surname] = match.group()
        introduced.append(own)
        for surname, name in own.items():
            known.setdefault(surname, {})[name] = None
    # A surname that two persons bear stands for neither of them where neither is named.
    sure = {surname: next(iter(names)) for surname, names in known.items() if len(names) == 1}
    contexts: list[str] = []
    for chunk, own in zip(chunks, introduced, strict=True):
        written = {word.lower() for word in _CAPITALISED_WORD.findall(chunk.text)} if sure else set[str]()
        told = [f"{surname}\t{sure[surname]}" for surname in sorted(written.intersection(sure).difference(own))]
        if german:
            said = german.among(_CAPITALISED_WORD.findall(chunk.text))
            told.append(_GERMAN + "|".join(" ".join(sorted(words)) for words in said))
        elif language in LATIN_LANGUAGES and language != "en":
            told.append(_IN + language)
        shown = "\n".join((*chunk.headings, chunk.text)) if labels else ""
        if own_labels := labels.intersection(_CAPITALISED_WORD.findall(shown)):
            told.append(_LABELS + " ".join(sorted(own_labels)))
        if is_unsaid:
            told.append(_UNSAID)
        contexts.append("\n".join([_FIRST, *told] if chunk.position == 0 else told))
    return contexts


def _is_title_case(name: str) -> bool:
    """Return whether a title has no word in small letters but those that join names, which says that it is a name."""
    return not any(word.islower() and word not in _SMALL for word in name.split()) or " " not in name


def _speaks_of(text: str, name: str) -> bool:
    """Return whether a text has a name in a line that says more than the name; both are in lower case."""
    start = text.find(name)
    while start >= 0:
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", start)
        line = text[first : last if last >= 0 else len(text)].strip()
        said = len(line) - len(name)
        if line[0] not in "#|" and said > (_LEAST_SAID_IN_HAN if _HAN.search(name) else _LEAST_SAID):
            return True
        start = text.find(name, start + len(name))
    return False
