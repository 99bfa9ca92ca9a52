"""The clean Markdown that every document becomes.

`clean_text` removes what no later step can store or show: control characters, lone surrogates, odd line ends. The file
also reads the structure that retrieval uses: headings, title, front matter. Rows of cells become a Markdown table.
`finish` completes every loaded document: text cleaned, length checked, title and language filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote, urlsplit

from heliograph.documents.base import Limits, LoadedDocument
from heliograph.errors import IngestError
from heliograph.text.analysis import LATIN_LANGUAGES, detect_language

_LINE_ENDS = re.compile("\r\n|[\r\v\f\x85\u2028\u2029]")
_REMOVED = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNCLEAN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]")


def clean_text(text: str) -> str:
    """Return a text with line feeds as line ends, without control characters and lone surrogates.

    A surrogate pair becomes its character; a lone surrogate becomes U+FFFD.
    """
    if not _UNCLEAN.search(text):
        return text
    return _REMOVED.sub("", _LINE_ENDS.sub("\n", replace_surrogates(text)))


def replace_surrogates(text: str) -> str:
    """Return a text that can be encoded: surrogate pairs become one character, lone surrogates U+FFFD."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


# A file of one long row and many short ones could expand to the square of its size.
_MOST_FILLED_CELLS = 10_000_000


def markdown_table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a table whose first row is the header.

    Short rows are padded, unless that takes more than ten million cells; rows without a word, and empty columns at the
    right end, are left out. White space in a cell becomes one space, as a cell is one line. No rows give the empty
    string.
    """
    read = ([" ".join(cell.replace("|", "\\|").split()) for cell in row] for row in rows)
    filled = [cells for cells in read if any(cells)]
    if not filled:
        return ""
    width = max(max(index + 1 for index, cell in enumerate(cells) if cell) for cells in filled)
    fills = width * len(filled) <= _MOST_FILLED_CELLS
    lines: list[str] = []
    for cells in filled:
        padded = [*cells[:width], *([""] * (width - len(cells)) if fills else ())]
        lines.append(f"| {' | '.join(padded)} |")
    return "\n".join((lines[0], "|" + " --- |" * width, *lines[1:]))


_TICKS = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)


def fence(code: str, language: str = "") -> str:
    """Return code as a fenced block, whose fence is longer than any inside."""
    longest = max((len(ticks) for ticks in _TICKS.findall(code)), default=2)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{code.strip(chr(10))}\n{ticks}"


_MAX_TITLE_LENGTH = 200
# Only the beginning of a longer line can become a title.
_MAX_HEADING_LENGTH = 2_000
_TITLE_SEARCH_CHARACTERS = 10_000
_MAX_FRONT_MATTER_LENGTH = 20_000

_LINE = re.compile(
    r"""^[ ]{0,3}(?:
        (?P<fence>`{3,}|~{3,})(?P<info>.*)
      | (?P<marks>\#{1,6})(?:[ \t]+(?P<atx>.*))?
      | (?P<setext>[^\s\#>*+|`~<=-].*)\n[ ]{0,3}(?P<underline>=+|-{2,})[ \t]*
    )$""",
    re.MULTILINE | re.VERBOSE,
)
# A URL may contain nested brackets.
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)")
# Content that may precede a title: badges, HTML tags, comments.
_NO_WORDS = re.compile(r"<!--.*?-->|<[^<>]*>|\[?!\[[^\[\]]*\]\([^()]*\)(?:\]\([^()]*\))?", re.DOTALL)
_WORD = re.compile(r"\w{2}")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD_NAME = re.compile(r"[A-Za-z_][\w .-]*")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)$")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: the start of its line, its level from 1 to 6, and its words without markup."""

    start: int
    level: int
    title: str


def find_headings(text: str) -> list[Heading]:
    """Return the headings of a text in order, without those in code fences and those without words.

    An unclosed fence reaches to the end of the text, as in CommonMark.
    """
    return list(_headings(text))


def find_title(text: str) -> str:
    """Return the heading near the start of a text that is its title, or an empty string.

    It is the first heading, if no words precede it or it is of the highest level; else the first of that level. Notes
    are named by their files, so a heading below their first words is that of a section.
    """
    headings = find_headings(text[:_TITLE_SEARCH_CHARACTERS])
    if headings and not _WORD.search(_NO_WORDS.sub("", text[: headings[0].start])):
        return headings[0].title
    return next((heading.title for heading in headings if heading.level == 1), "")


def nest_headings(text: str, level: int) -> str:
    """Shift the headings of a text so that the highest is one below `level`, for embedding in another document."""
    headings = find_headings(text)
    deeper = level + 1 - min((heading.level for heading in headings), default=level + 1)
    if deeper <= 0:
        return text
    pieces: list[str] = []
    position = 0
    for heading in headings:
        end = (text.find("\n", heading.start) + 1 or len(text) + 1) - 1
        line = text[heading.start : end]
        marks = "#" * min(6, heading.level + deeper)
        is_underlined = not line.lstrip(" ").startswith("#")
        words = line.strip() if is_underlined else line.lstrip(" ").lstrip("#").strip(" \t")
        pieces += [text[position : heading.start], f"{marks} {words}"]
        position = (text.find("\n", end + 1) + 1 or len(text) + 1) - 1 if is_underlined else end
    return "".join((*pieces, text[position:]))


def split_front_matter(text: str) -> tuple[dict[str, str | list[str]], str]:
    """Split the `key: value` lines between two `---` at the start of a text from the rest.

    Only plain values and lists of them are read; nested ones are skipped. Without front matter the fields are empty and
    the text is returned whole.
    """
    match = _FRONT_MATTER.match(text, 0, _MAX_FRONT_MATTER_LENGTH) if text.startswith("---") else None
    fields: dict[str, str | list[str]] = {}
    items: list[str] = []
    for line in match.group(1).split("\n") if match else ():
        name, colon, value = line.partition(":")
        if colon and value[:1] in ("", " ", "\t") and _FIELD_NAME.fullmatch(name := name.rstrip(" \t")):
            value, items = value.strip(), []
            if value.startswith("[") and value.endswith("]"):
                fields[name] = list(filter(None, (_unquoted(item.strip()) for item in value[1:-1].split(","))))
            else:
                fields[name] = _unquoted(value) or items
        elif item := _ITEM.match(line):
            items.append(_unquoted(item[1].strip()))
    fields = {name: value for name, value in fields.items() if value}
    return (fields, text[match.end() :].lstrip("\n")) if match and fields else ({}, text)


def _headings(text: str) -> Iterator[Heading]:
    fence = ""
    for match in _LINE.finditer(text):
        mark = match["fence"]
        if mark:
            if fence:
                closes = mark[0] == fence[0] and len(mark) >= len(fence) and not match["info"].strip()
                fence = "" if closes else fence
            elif mark[0] != "`" or "`" not in match["info"]:
                # Backticks after the marks would make it inline code.
                fence = mark
        # Under a longer paragraph, dashes are more often a rule than a heading.
        elif not fence and (match["marks"] or text[max(0, match.start() - 2) : match.start()] in ("\n\n", "\n", "")):
            title = _plain(match["atx"] or match["setext"] or "")
            if title:
                level = len(match["marks"]) if match["marks"] else 1 if match["underline"][0] == "=" else 2
                yield Heading(match.start(), level, title)


def _plain(markup: str) -> str:
    markup = markup[:_MAX_HEADING_LENGTH]
    # `Words` of `Words ##`.
    words = markup.rstrip(" \t")
    left = words.rstrip("#")
    if left != words and left[-1:] in ("", " ", "\t"):
        markup = left
    # `Words` of `Words {#words}`.
    words = markup.rstrip()
    start = words.find("{#", words.rfind("}", 0, -1) + 1)
    if words.endswith("}") and start >= 0:
        markup = words[:start]
    title = _LINK.sub(r"\1", markup)
    return " ".join(title.replace("**", "").replace("`", "").split())[:_MAX_TITLE_LENGTH].rstrip()


def _unquoted(value: str) -> str:
    is_quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value


# A language tag, such as `en-US`.
_TAG = re.compile(r"\s*([A-Za-z]{2,3})(?:[-_][A-Za-z0-9]{1,8})*\s*")
# Detected languages by their three-letter codes (ISO 639-2), which books state.
_THREE_LETTERS = {
    "eng": "en",
    "deu": "de",
    "ger": "de",
    "fra": "fr",
    "fre": "fr",
    "spa": "es",
    "ita": "it",
    "por": "pt",
    "nld": "nl",
    "dut": "nl",
    "zho": "zh",
    "chi": "zh",
    "jpn": "ja",
    "kor": "ko",
    "rus": "ru",
}

# Codes that name no language: undetermined, several, one without a code, none.
_NO_LANGUAGE = frozenset({"und", "mul", "mis", "zxx"})


def with_language(metadata: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Return a document's metadata with its `language`: stated, else detected (`detect_language`).

    It is an ISO 639 code in lower case, without a region: `en-US` becomes `en`. A value that is no language tag is
    ignored.
    """
    tag = _TAG.fullmatch(str(metadata.get("language") or ""))
    stated = tag[1].lower() if tag else ""
    code = stated if stated and stated not in _NO_LANGUAGE else detect_language(text)
    return {**metadata, "language": _THREE_LETTERS.get(code, code)}


def finish(loaded: LoadedDocument, limits: Limits) -> LoadedDocument:
    """Return a document with clean text, a title, and a language; raises `IngestError` if it is too long."""
    if len(loaded.text) > limits.max_characters:
        raise too_long(loaded.source, limits.max_characters, len(loaded.text))
    # Cleaning may remove characters, so each page is cleaned separately and page starts are recomputed.
    bounds = [*(loaded.page_starts or (0,)), len(loaded.text)]
    pages = [clean_text(loaded.text[start:end]) for start, end in pairwise(bounds)]
    starts: list[int] = []
    position = 0
    for page in pages:
        starts.append(position)
        position += len(page)
    text = "".join(pages)
    title = " ".join(clean_text(loaded.title).split()) or find_title(text) or name_title(loaded.source)
    metadata = {key: value for key, value in loaded.metadata.items() if value not in ("", None, [], ())}
    page_starts = tuple(starts) if loaded.page_starts else ()
    metadata = with_language(metadata, text)
    # Page templates state English whatever the text's script.
    if metadata["language"] in LATIN_LANGUAGES and (detected := detect_language(text)) not in LATIN_LANGUAGES:
        metadata["language"] = detected
    return replace(loaded, title=title, text=text, metadata=metadata, page_starts=page_starts)


def name_title(source: str) -> str:
    """Return a title from the last part of a path or URL, without its suffix; the source itself if that is empty."""
    name = PurePath(source).stem
    if "://" in source:
        # A malformed URL is treated as a path.
        with suppress(ValueError):
            parts = urlsplit(source)
            path = unquote(parts.path).rstrip("/") or parts.netloc
            name = " ".join((PurePath(path).name or path).split())
    return clean_text(name) or source


def too_long(name: str, max_characters: int, length: int, where: str = "") -> IngestError:
    """Return the error for a text with too many characters, from whatever input.

    `length` is how far it was read; `where` says where that is, such as `page 7 of 120`; empty for the whole.
    """
    if where:
        return IngestError(
            f"{name!r} has at least {length:,} characters by {where}, more than {max_characters:,}; split it, or raise "
            "ingest.max_document_characters"
        )
    return IngestError(
        f"{name!r} has {length:,} characters, more than {max_characters:,}; split it, or raise "
        "ingest.max_document_characters"
    )
