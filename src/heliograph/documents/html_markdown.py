"""Writes a tree of HTML as Markdown: headings, paragraphs, nested lists, tables, fenced code, quotes.

Only content that matters for search is kept: emphasis loses its marks, links keep their words, images their
description. Scripts, templates, hidden elements and forms are left out. Spans of table cells are resolved, and layout
tables are told from data tables.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

from heliograph.documents.markdown import fence, markdown_table
from heliograph.documents.terminal_text import is_manual_page, set_out_markdown, terminal_markdown
from heliograph.text.sentences import without_breaks

# A selectolax node; the package has no types for a lexbor node's attributes.
Node = Any

# Larger spans are mistakes, or made to exhaust memory.
_MAX_COLUMNS = 500
_MAX_ROW_SPAN = 2_000
# Mail and old pages put whole articles into a cell; no cell of a data table is that long.
_MAX_CELL_CHARACTERS = 2_000


def layout_cells(table: Node) -> list[Node] | None:
    """Return the cells of a layout table, or None for a data table.

    A layout table says so, holds other tables, has a single row or column without headers, holds long texts, or is an
    icon beside one column: a note, of which the heading and text are returned.
    """
    rows = list(_rows(table))
    cells = [cell for row in rows for cell in _cells(row)]
    if cells and _span(cells[0], "rowspan", _MAX_ROW_SPAN) >= len(rows):
        first, *others = cells
        is_icon = first.css_first("img, svg") is not None and not first.text().strip()
        if is_icon and len(others) == len(rows):
            return others
    if table.attributes.get("role") in ("presentation", "none"):
        return cells
    if any(cell.css_first("table, pre, h1, h2, h3") is not None for cell in cells):
        return cells
    if any(cell.tag == "th" for cell in cells):
        return None
    is_line = len(rows) < 2 or max((sum(1 for _ in _cells(row)) for row in rows), default=0) < 2
    return cells if is_line or any(len(cell.text()) > _MAX_CELL_CHARACTERS for cell in cells) else None


def read_table(table: Node, read_cell: Callable[[Node], str]) -> list[list[str]]:
    """Return the rows of a table as texts; a cell that spans rows is repeated in each, but not across columns."""
    rows: list[list[str]] = []
    # Per column, a cell that spans rows below: how many, and its text.
    from_above: dict[int, tuple[int, str]] = {}
    for row in _rows(table):
        texts: list[str] = []
        below: dict[int, tuple[int, str]] = {}
        for cell in _cells(row):
            _carry_down(texts, from_above, below)
            if len(texts) >= _MAX_COLUMNS:
                break
            text, height = read_cell(cell), _span(cell, "rowspan", _MAX_ROW_SPAN)
            if height > 1:
                below[len(texts)] = (height - 1, text)
            texts += [text, *[""] * (_span(cell, "colspan", _MAX_COLUMNS) - 1)]
        _carry_down(texts, from_above, below)
        rows.append(texts[:_MAX_COLUMNS])
        from_above = below
    return rows


def _carry_down(texts: list[str], from_above: dict[int, tuple[int, str]], below: dict[int, tuple[int, str]]) -> None:
    """Append the cells at this position that span down from rows above."""
    while (cell := from_above.pop(len(texts), None)) is not None:
        rows, text = cell
        if rows > 1:
            below[len(texts)] = (rows - 1, text)
        texts.append(text)


def _rows(table: Node) -> Iterator[Node]:
    for part in _elements(table):
        if part.tag == "tr":
            yield part
        elif part.tag in ("thead", "tbody", "tfoot"):
            yield from (row for row in _elements(part) if row.tag == "tr")


def _cells(row: Node) -> Iterator[Node]:
    return (cell for cell in _elements(row) if cell.tag in ("td", "th"))


def _elements(node: Node) -> Iterator[Node]:
    return (child for child in _children(node) if child.is_element_node)


def _span(cell: Node, name: str, most: int) -> int:
    value = (cell.attributes.get(name) or "").strip()
    return max(1, min(int(value), most)) if value.isascii() and value.isdigit() and len(value) < 9 else 1


_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_BLOCKS = frozenset(_HEADINGS) | {
    *(
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "caption",
        "center",
        "dd",
        "details",
        "dialog",
        "dir",
        "div",
    ),
    *("dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "html", "legend"),
    *("li", "main", "menu", "nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "td", "tfoot", "th"),
    *("thead", "tr", "ul"),
}
_DROPPED = frozenset(
    {
        *("script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "embed", "audio", "video"),
        *("map", "head", "title", "link", "meta", "button", "input", "select", "textarea", "datalist", "output"),
        *("progress", "meter", "rp", "rt", "-comment"),
    }
)
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_CODE_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight|highlight-source|brush:)[-\s]?([A-Za-z][\w+#-]*)")
_NO_LANGUAGE = frozenset({"default", "none", "text", "plaintext", "notranslate", "playground"})
_SPACE = re.compile(r"[ \t\n\r\f\u00a0]+")
_MARK_AT_START = re.compile(r"^(#{1,6}(?=\s)|```|~~~)")
_MARKS = frozenset({"¶", "#", "§", "🔗", "↑", "↩", "↩︎", "\uf0c1", "⚓", "⚓︎", "[−]", "[-]", ""})
_TOOLS = frozenset(
    {"source", "src", "edit", "view source", "edit source", "permalink", "编辑", "编辑源代码", "源代码", "編輯"}
)
_PROSE = frozenset({"p", "li", "td", "dd", "b", "i", "em", "strong"})
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_NOTES = frozenset({"note", "warning", "tip", "hint", "important", "caution", "danger", "attention", "admonition"})
# Elements between the items of a list that are no items: emphasis, inline elements that continue a text, and blocks.
_STRESS = frozenset({"b", "strong", "i", "em", "u", "font", "big", "small", "br"})
_LOOSE = _STRESS | {"a", "span", "code", "tt", "kbd", "samp", "sub", "sup", "abbr", "cite", "q", "var", "img"}
_BETWEEN = frozenset({"p", "blockquote", "center", "pre", "table"})
# Caption of an image: ancestors searched, nodes among them, and how much longer than the image's own text it may be.
_CAPTION_WITHIN, _CAPTION_NODES, _LONGEST_CAPTION = 4, 100, 200
_FILE_NAME = re.compile(r"\S+\.(?:png|gif|jpe?g|svg|webp|bmp)", re.IGNORECASE)
_NAME_LIKE = re.compile(r"\w+(?:[-_.]\w+)+")
_NO_LETTER = re.compile(r"[\W_]")
# A superscript that is a power or an index; the mark of a note; and the end of a whole word, which a note follows.
_POWER = re.compile(r"[-−–+]?(?:\d+|[A-Za-z])")
_SUM = re.compile(r"[\w.]+(?:\s*[-−–+*/·]\s*[\w.]+)+")
_NOTE = re.compile(r"\d{1,3}|[*†‡§]{1,3}")
_BEFORE_NOTE = re.compile(r"(?:[^\W\d_]{5}|[^\w\s)\]}])$")
_ORDINAL = re.compile(r"(?:\d|\b[nN])[aeo]$")
# At least this many paragraphs that only count up are the numbers of the paragraphs between them.
_LEAST_NUMBERED = 5
_LONGEST_NUMBER = 12
_LEAST_RISES = 2
_MARGIN_NUMBER = re.compile(r"(\d{1,5})(?:\.[a-z]{1,3}(?:\.\d{1,2})?)?(?:/\d)?")
# A page that is but text set with a fixed width: how long that is at the least, which of its lines are written (so many
# words, most of them made of letters), and how many of these it has. Few look like code; more of a single block, as
# items of lists end with semicolons.
_LEAST_PAGE, _LEAST_WORDS, _MOSTLY, _LEAST_WRITTEN = 1500, 5, 0.75, 0.4
# Source that is mostly comments is code: how its lines begin or end, which few lines of prose do.
_CODE_LINE = re.compile(
    r"^(?:[ \t]*(?:#|//|/\*|--[ \t]|@\w|=(?:cut|head\d|over|item)\b|\w+[ \t]*=[ \t]).*|.*(?:[;{}\\]|\*/|\):)[ \t]*$)",
    re.MULTILINE,
)
_MOST_CODE, _MOST_CODE_WITHIN = 0.1, 0.3
# Code is coloured by such; what holds a link is none.
_COLOURED = "code, span[class]:not(:has(a))"
_WRITTEN_MARK = "data-heliograph-written"
_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_WRITTEN = re.compile(r"[\"'(“‘]?[^\W\d_]+(?:['’-][^\W\d_]+)*[\"')”’]?[.,;:!?]*")
# Deeper nesting is only made to break readers; content below becomes plain text.
_MAX_DEPTH = 150


def to_markdown(node: Node) -> str:
    """Return what a node holds as Markdown blocks with blank lines between them; empty if there are no words."""
    _mark_written(node)
    blocks = list(_blocks(node, 0))
    numbers = [
        (place, int(match[1]))
        for place, block in enumerate(blocks)
        if len(block) < _LONGEST_NUMBER and (match := _MARGIN_NUMBER.fullmatch(block))
    ]
    # Numbers followed by letters ("14.c") belong to additions to the paragraph of this number.
    steps = {after - before for (_, before), (_, after) in pairwise(numbers)}
    has_letters = any(character.isalpha() for place, _ in numbers for character in blocks[place])
    rises = sum(after[1] > before[1] for before, after in pairwise(numbers))
    is_margin = steps <= {0, 1} and rises >= _LEAST_RISES if has_letters else steps == {1}
    if len(numbers) >= _LEAST_NUMBERED and is_margin:
        margin = {place for place, _ in numbers}
        blocks = [block for place, block in enumerate(blocks) if place not in margin]
    return "\n\n".join(blocks)


@dataclass(slots=True)
class _Inline:
    """Consecutive words within one block."""

    pieces: list[str] = field(default_factory=list[str])

    def take(self) -> str:
        if not self.pieces:
            return ""
        text = "".join(self.pieces)
        self.pieces.clear()
        if not text or text.isspace():
            return ""
        lines = without_breaks(text).split("\v")
        return "\n".join(line for line in (_SPACE.sub(" ", line).strip() for line in lines) if line)


def _children(node: Node) -> Iterator[Node]:
    child = node.first_child
    while child is not None:
        yield child
        child = child.next


def _blocks(node: Node, depth: int) -> Iterator[str]:
    inline = _Inline()
    for child in _children(node):
        if child.tag in _BLOCKS or (child.is_element_node and _holds_block(child, depth)):
            if text := inline.take():
                yield _paragraph(text)
            yield from _block(child, depth + 1)
        else:
            _collect(child, inline, depth + 1)
    if text := inline.take():
        yield _paragraph(text)


def _holds_block(node: Node, depth: int) -> bool:
    """Return whether an inline element, such as a link around a card, holds blocks."""
    if node.tag in _DROPPED or depth > _MAX_DEPTH:
        return False
    return any(
        child.tag in _BLOCKS or (child.is_element_node and _holds_block(child, depth + 1)) for child in _children(node)
    )


def _block(node: Node, depth: int) -> Iterator[str]:
    tag = node.tag
    attributes = node.attributes
    if tag == "hr" or is_hidden(attributes):
        return
    if "role" in attributes:
        is_section = any(inner.mem_id != node.mem_id for inner in node.css("p, ul, ol, dl, pre, table"))
        tag = tag if is_section else role_heading(attributes) or tag
    if depth > _MAX_DEPTH:
        if text := _SPACE.sub(" ", node.text(separator=" ")).strip():
            yield text
    elif tag in _HEADINGS:
        # A button in a heading opens the answer below it, and its words are the heading.
        if words := _words(node, depth, is_heading=True):
            yield words if _is_of_note(node) else f"{'#' * _HEADINGS[tag]} {words}"
    else:
        yield from _READERS.get(tag, _blocks)(node, depth)


def _is_of_note(heading: Node) -> bool:
    """Return whether a heading only labels a box ("Note"), and not the section below the box."""
    box, following = heading.parent, heading.next
    while following is not None and following.tag not in _HEADINGS:
        following = following.next
    classes = ((box.attributes.get("class") or "") if box is not None else "").casefold()
    return bool(
        heading.tag != "h1"
        and box is not None
        and following is None
        and not _NOTES.isdisjoint(re.findall("[a-z]+", classes))
        and len(box.css("h1, h2, h3, h4, h5, h6")) == 1
    )


def _list(node: Node, depth: int) -> Iterator[str]:
    start = node.attributes.get("start") or ""
    number = int(start) if start.isascii() and start.isdigit() and len(start) < 9 else 1
    items: list[str] = []
    above: list[str] = []
    loose = _Inline()

    def stand_below(text: str, gap: str) -> None:
        """Attach text between two items to the item above it; text before the first item goes above the list."""
        if items:
            items[-1] += gap + textwrap.indent(text, " " * len(items[-1].partition(" ")[0] + " "))
        else:
            above.append(text)

    for child in _children(node):
        if child.is_text_node:
            if loose.pieces or not (child.text_content or "").isspace():
                _collect(child, loose, depth + 1)
            continue
        if child.tag in (_LOOSE if loose.pieces else _STRESS) and not _holds_block(child, depth):
            _collect(child, loose, depth + 1)
            continue
        if loose.pieces and child.is_element_node and (words := loose.take()):
            stand_below(_paragraph(words), "\n\n")
        if not child.is_element_node or child.tag in _DROPPED or is_hidden(child.attributes):
            continue
        blocks = list(_blocks(child, depth + 1)) if child.tag == "li" else list(_block(child, depth + 1))
        if not blocks:
            continue
        if child.tag in _LISTS:
            stand_below("\n".join(blocks), "\n")
            continue
        if child.tag in _BETWEEN:
            stand_below("\n\n".join(blocks), "\n\n")
            continue
        mark = f"{number}. " if node.tag == "ol" else "- "
        number += 1
        # The first block stands after the mark, the others below it, indented, lists without a blank line.
        text = blocks[0].removeprefix("\\")
        for block in blocks[1:]:
            text += ("\n" if re.match(r"(- |\d+\. )", block) else "\n\n") + block
        items.append(mark + re.sub(r"\n(?=[^\n])", "\n" + " " * len(mark), text))
    if words := loose.take():
        stand_below(_paragraph(words), "\n\n")
    yield from above
    if items:
        yield "\n".join(items)


def _quote(node: Node, depth: int) -> Iterator[str]:
    if quoted := "\n\n".join(_blocks(node, depth)):
        yield "\n".join(f"> {line}".rstrip() for line in quoted.split("\n"))


def _paragraph(text: str) -> str:
    """Return a paragraph that cannot be mistaken for a heading or a fence."""
    return _MARK_AT_START.sub(r"\\\1", text)


def _collect(node: Node, inline: _Inline, depth: int) -> None:
    tag = node.tag
    if node.is_text_node:
        inline.pieces.append((node.text_content or "").replace("\v", " "))
    elif tag in _DROPPED or not node.is_element_node or is_hidden(node.attributes):
        return
    elif tag == "br":
        inline.pieces.append("\v")
    elif tag == "img":
        inline.pieces.append(_description(node))
    elif tag == "sup":
        inline.pieces.append(_raised(_words(node, depth), inline.pieces, is_linked=node.css_first("a") is not None))
    elif tag == "math":
        annotation = node.css_first("annotation")
        inner = annotation.text() if annotation is not None else node.text(separator=" ")
        inline.pieces.append(node.attributes.get("alttext") or inner)
    elif depth > _MAX_DEPTH:
        inline.pieces.append(node.text(separator=" "))
    elif tag in ("code", "kbd", "samp", "tt"):
        code = _SPACE.sub(" ", node.text()).strip()
        if code and "`" not in code and inline.pieces and re.fullmatch("`[^`]+`", inline.pieces[-1]):
            # Adjacent code spans without a blank between them are one.
            inline.pieces[-1] = f"{inline.pieces[-1][:-1]}{code}`"
        else:
            inline.pieces.append(f"`{code}`" if code and "`" not in code else code)
    elif not _is_anchor(node):
        for child in _children(node):
            _collect(child, inline, depth + 1)


def _description(image: Node) -> str:
    """Return an image's description; empty if it is a file name, or repeats the caption."""
    words = image.attributes.get("alt") or ""
    around = image.parent
    for _ in range(_CAPTION_WITHIN if words.strip() else 0):
        within = list(islice(around.traverse(include_text=True), _CAPTION_NODES)) if around is not None else []
        said = "".join(node.text(deep=False) for node in within if node.tag == "-text")
        # Within a sentence an image stands for a word.
        if (
            around is None
            or len(within) == _CAPTION_NODES
            or len(said) > len(words) + _LONGEST_CAPTION
            or (around.tag in _PROSE and said.strip())
        ):
            break
        if " ".join(words.split()) in " ".join(said.split()):
            return ""
        around = around.parent
    name = (image.attributes.get("src") or "").rpartition("/")[2]
    is_name = _NAME_LIKE.fullmatch(words.strip()) and _NO_LETTER.sub("", words) in _NO_LETTER.sub("", name)
    return "" if is_name or _FILE_NAME.fullmatch(words.strip()) else words


def _raised(words: str, before: Sequence[str], *, is_linked: bool) -> str:
    """Return a superscript as plain text: a power after "^", the number of a note in brackets, letters unchanged."""
    text = next((piece for piece in reversed(before) if piece), "")
    if _NOTE.fullmatch(words) and (is_linked or _BEFORE_NOTE.search(text)):
        return f"[{words}]"
    if not text[-1:].strip("\v ") or is_linked or _ORDINAL.search(text + words):
        return words
    return f"^{words}" if _POWER.fullmatch(words) else f"^({words})" if _SUM.fullmatch(words) else words


def _words(node: Node, depth: int, *, is_heading: bool = False) -> str:
    """Return all words within a node as one line."""
    inline = _Inline()
    for child in _children(node):
        if child.tag == "button" and is_heading and not is_hidden(child.attributes):
            inline.pieces.append(" " + _words(child, depth + 1) + " ")
        elif child.tag in _BLOCKS:
            inline.pieces.append(" " + " ".join(_blocks(child, depth + 1)) + " ")
        elif child.tag == "img" and is_heading and node.text().strip():
            # An icon beside the words.
            continue
        else:
            _collect(child, inline, depth + 1)
    words = " ".join(inline.take().split())
    # Remove empty brackets around a removed mark.
    return words.replace("[]", "").strip() if is_heading else words


def is_hidden(attributes: Mapping[str, str | None]) -> bool:
    """Return whether an element's attributes hide it."""
    return (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or ("style" in attributes and bool(_HIDDEN_STYLE.search(attributes["style"] or "")))
    )


def role_heading(attributes: Mapping[str, str | None]) -> str:
    """Return the heading (`h3`) that an element's role gives it; empty if none."""
    if (attributes.get("role") or "").strip().lower() != "heading":
        return ""
    level = (attributes.get("aria-level") or "").strip()
    return f"h{level}" if f"h{level}" in _HEADINGS else "h2"


def _is_anchor(node: Node) -> bool:
    """Return whether a link is only a tool: an anchor of a heading (¶, #, §), back from a note, to source or edit."""
    if node.tag != "a" or "href" not in node.attributes:
        return False
    text = node.text().strip()
    if text in _MARKS:
        return node.attributes["href"].startswith("#") or bool(text)
    # In a sentence "edit" is a word.
    return text.strip("[]").casefold() in _TOOLS and (node.parent.tag not in _PROSE or text.startswith("["))


def _code(node: Node, _depth: int) -> Iterator[str]:
    # Line numbers, copy buttons, and lines that mdBook hides by default.
    for aside in node.css(".linenos, .lineno, .line-numbers-rows, .gutter, .boring, button"):
        aside.decompose()
    for line_break in node.css("br"):
        line_break.replace_with("\n")
    code = node.text().replace("\u00a0", " ")
    if is_manual_page(code) and (page := terminal_markdown(code)):
        yield page.rstrip()
    elif count := node.attributes.get(_WRITTEN_MARK):
        is_alone = count == "1"
        said = _BLANK_LINES.split(code.strip("\n")) if is_alone else set_out_markdown(code)
        yield from (_paragraph(block) if is_alone else block for block in said if block.strip())
    elif code.strip():
        inner = node.css_first("code")
        language = ""
        for marked in (inner, node, node.parent, node.parent.parent if node.parent is not None else None):
            if not language and marked is not None and marked.is_element_node:
                classes = f"{marked.attributes.get('class') or ''} {marked.attributes.get('data-lang') or ''}".strip()
                match = _CODE_LANGUAGE.search(classes)
                language = match[1].lower() if match and match[1].lower() not in _NO_LANGUAGE else ""
        yield fence(code, language)


def _mark_written(page: Node) -> None:
    """Mark what is set with a fixed width and is text, on a page that is little else: RFCs, letters, plain manuals."""
    blocks = [(block, block.text()) for block in page.css("pre")]
    length = sum(len(code) for _, code in blocks)
    if length < _LEAST_PAGE or length < _MOSTLY * len(page.text()):
        return
    if _is_written("\n".join(code for _, code in blocks)):
        for block, code in blocks:
            if not any(part.text().strip() for part in block.css(_COLOURED)) and _is_written(code, _MOST_CODE_WITHIN):
                block.attrs[_WRITTEN_MARK] = str(len(blocks))


def _is_written(code: str, most_code: float = _MOST_CODE) -> bool:
    lines = [words for line in code.split("\n") if (words := line.split())]
    if len(_CODE_LINE.findall(code)) > most_code * len(lines):
        return False
    long = [words for words in lines if len(words) >= _LEAST_WORDS]
    written = sum(sum(map(bool, map(_WRITTEN.fullmatch, words))) >= _MOSTLY * len(words) for words in long)
    return written >= _LEAST_WRITTEN * len(lines)


def _definitions(node: Node, depth: int) -> Iterator[str]:
    """Yield terms with their descriptions; a term and a single paragraph share a block."""
    term = ""
    for child in _definition_parts(node):
        if child.is_text_node:
            loose = _SPACE.sub(" ", child.text_content or "").strip()
            yield from (words for words in (term, loose) if words)
            term = ""
        elif child.tag == "dt":
            if term:
                yield term
            term = _words(child, depth)
        else:
            blocks = list(_blocks(child, depth + 1))
            if term and blocks and not blocks[0].startswith(("|", "```", "#", "- ")):
                blocks[0] = f"{term}: {blocks[0]}" if len(term) < 100 else f"{term}\n{blocks[0]}"
            elif term:
                yield term
            term = ""
            yield from blocks
    if term:
        yield term


def _definition_parts(node: Node) -> Iterator[Node]:
    for child in _children(node):
        if child.tag == "div":
            yield from _definition_parts(child)
        elif child.is_text_node or (
            child.is_element_node and child.tag not in _DROPPED and not is_hidden(child.attributes)
        ):
            yield child


def _table(node: Node, depth: int) -> Iterator[str]:
    cells = layout_cells(node)
    # A caption of this table, not of a nested one.
    for child in _children(node):
        if child.tag == "caption" and (words := _words(child, depth)):
            yield words
    if cells is not None:
        for cell in cells:
            yield from _blocks(cell, depth + 1)
        return
    if table := markdown_table(read_table(node, lambda cell: _words(cell, depth))):
        yield table


_READERS = {
    "pre": _code,
    "ul": _list,
    "ol": _list,
    "menu": _list,
    "dir": _list,
    "dl": _definitions,
    "table": _table,
    "blockquote": _quote,
}
