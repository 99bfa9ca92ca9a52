"""The structure of Markdown that retrieval uses: headings, a title, and front matter.

Only what is needed is read: ATX headings, one-line Setext headings, and code fences, inside which nothing is a
heading. Plain text passes through the same functions; it simply has no headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Heading", "find_headings", "find_title", "split_front_matter"]

_MAX_TITLE_LENGTH = 200
# Of a longer line only the beginning can become a title.
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
# An address may hold brackets, one in another.
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*(?:\([^()]*\)[^()]*)*\)")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD_NAME = re.compile(r"[A-Za-z_][\w .-]*")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*)$")


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: where its line starts, its level from 1 to 6, and its words without markup."""

    start: int
    level: int
    title: str


def find_headings(text: str) -> list[Heading]:
    """Return the headings of a text in order; those in code fences and those without words are left out.

    A fence that is never closed reaches to the end of the text, as CommonMark has it.
    """
    return list(_headings(text))


def find_title(text: str) -> str:
    """Return the first heading near the start of a text, or an empty string."""
    heading = next(_headings(text[:_TITLE_SEARCH_CHARACTERS]), None)
    return heading.title if heading else ""


def split_front_matter(text: str) -> tuple[dict[str, str | list[str]], str]:
    """Separate the `key: value` lines between two `---` at the start of a text from the rest.

    Only plain values and lists of them are read; nested ones are skipped. Without front matter the fields are empty
    and the text comes back whole.
    """
    match = _FRONT_MATTER.match(text, 0, _MAX_FRONT_MATTER_LENGTH) if text.startswith("---") else None
    fields = _fields(match.group(1)) if match else {}
    return (fields, text[match.end() :].lstrip("\n")) if match and fields else ({}, text)


def _headings(text: str) -> Iterator[Heading]:
    fence = ""
    for match in _LINE.finditer(text):
        mark = match["fence"]
        if mark:
            fence = _next_fence(fence, mark, match["info"])
        elif not fence and (match["marks"] or _stands_alone(text, match.start())):
            title = _plain(match["atx"] or match["setext"] or "")
            if title:
                yield Heading(match.start(), _level(match), title)


def _next_fence(fence: str, mark: str, info: str) -> str:
    """Return the fence that is open after a line of fence marks."""
    if not fence:
        # Backticks after the marks make it inline code.
        return "" if mark[0] == "`" and "`" in info else mark
    closes = mark[0] == fence[0] and len(mark) >= len(fence) and not info.strip()
    return "" if closes else fence


def _stands_alone(text: str, start: int) -> bool:
    """Whether the line before is blank; under a longer paragraph, dashes are more often a rule than a heading."""
    return start == 0 or text[max(0, start - 2) : start] in ("\n\n", "\n")


def _level(match: re.Match[str]) -> int:
    if match["marks"]:
        return len(match["marks"])
    return 1 if match["underline"][0] == "=" else 2


def _plain(markup: str) -> str:
    title = _LINK.sub(r"\1", _without_anchor(_without_closing_marks(markup[:_MAX_HEADING_LENGTH])))
    return " ".join(title.replace("**", "").replace("`", "").split())[:_MAX_TITLE_LENGTH].rstrip()


def _without_closing_marks(markup: str) -> str:
    """Return `Words` of `Words ##`."""
    words = markup.rstrip(" \t")
    left = words.rstrip("#")
    return markup if left == words or left[-1:] not in ("", " ", "\t") else left


def _without_anchor(markup: str) -> str:
    """Return `Words` of `Words {#words}`."""
    words = markup.rstrip()
    start = words.find("{#", words.rfind("}", 0, -1) + 1)
    return words[:start] if words.endswith("}") and start >= 0 else markup


def _fields(block: str) -> dict[str, str | list[str]]:
    fields: dict[str, str | list[str]] = {}
    items: list[str] = []
    for line in block.split("\n"):
        name, colon, value = line.partition(":")
        if colon and value[:1] in ("", " ", "\t") and _FIELD_NAME.fullmatch(name := name.rstrip(" \t")):
            value, items = value.strip(), []
            is_list = value.startswith("[") and value.endswith("]")
            fields[name] = _inline_items(value) if is_list else _unquoted(value) or items
        elif match := _ITEM.match(line):
            items.append(_unquoted(match[1].strip()))
    return {name: value for name, value in fields.items() if value}


def _inline_items(value: str) -> list[str]:
    items = (_unquoted(item.strip()) for item in value[1:-1].split(","))
    return [item for item in items if item]


def _unquoted(value: str) -> str:
    is_quoted = len(value) >= 2 and value[0] == value[-1] and value[0] in "'\""
    return value[1:-1] if is_quoted else value
