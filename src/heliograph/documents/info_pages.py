"""Reads GNU Info files, which `makeinfo` writes, as Markdown: a heading per node, terms, lists and examples.

Navigation (the line above each node, menus, tag tables) is left out; a cross reference keeps its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from heliograph.documents.terminal_text import set_out_markdown

_NODE = re.compile(r"^(?:\x1f\n?)?File: [^\n]*?Node: [^\n]*\n", re.MULTILINE)
_END = re.compile(r"^(?:\x1f\n?)?(?:Tag Table:|Indirect:|Local Variables:(?=\n *coding:))$", re.MULTILINE)
_MENU = re.compile(r"^\* Menu:\n.*", re.MULTILINE | re.DOTALL)
_REFERENCE = re.compile(
    r"(?P<see>\b[Ss]ee\s+)?\*(?P<note>[Nn])ote\s+(?P<words>[^:*]{1,200}?)(?:::|:\s+[^.,;:)]{1,200}(?:\.(?=\)))?)"
)
_CODE = re.compile("‘([^‘’`\n]+)’")
# The start of a definition or list item, and the first line of a paragraph whose other lines are not indented.
_FIRST_LINE = re.compile(r"^ -- |^ {3}(?:(?=[•*−-] )|(?=\S[^\n]*(?:\n\S|\n\s*\n|\n?\Z)))", re.MULTILINE)
# One of several terms that share an explanation.
_TERMS = re.compile(
    r"^((?P<indent> *)`[^\n]{1,60})\n(?P=indent)(?=`[^\n]*\n(?:(?P=indent)`[^\n]*\n){0,8}(?P=indent) +\S)", re.MULTILINE
)
_LEVELS = {"*": 1, "=": 2, "-": 3, ".": 4}


def info_markdown(text: str) -> str | None:
    """Return an Info file as Markdown; None where a text has no node."""
    nodes = _NODE.split(text)[1:]
    blocks = [block for node in nodes for block in _node(_MENU.sub("", _END.split(node)[0]).split("\n"))]
    return "\n\n".join(blocks) + "\n" if nodes else None


def _node(lines: Sequence[str]) -> Iterator[str]:
    """Yield the blocks of a node: headings are underlined, and indentation gives the structure below them."""
    body: list[str] = []
    for place, line in enumerate(lines):
        mark = line[:1]
        above = lines[place - 1].strip() if place else ""
        if mark in _LEVELS and above and body and set(line) == {mark} and abs(len(line) - len(above)) <= len(above):
            body.pop()
            yield from _body(body)
            body = []
            yield f"{'#' * _LEVELS[mark]} {above}"
        else:
            body.append(line)
    yield from _body(body)


def _body(lines: Sequence[str]) -> Iterator[str]:
    text = _CODE.sub(r"`\1`", _REFERENCE.sub(_reference, "\n".join(lines)))
    yield from set_out_markdown(_TERMS.sub(r"\1, ", _FIRST_LINE.sub("", text)))


def _reference(match: re.Match[str]) -> str:
    words = " ".join(match["words"].split())
    return f"{match['see'] or ('See ' if match['note'] == 'N' else 'see ')}{words}"
