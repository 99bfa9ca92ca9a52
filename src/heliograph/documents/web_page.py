"""Loads HTML pages: their content as Markdown, their title, and their metadata.

Prose stays; menus, banners and footers are removed. A block is judged by its kind and position, and a block that holds
sentences is never removed because of its name alone.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.encoding import decode_text
from heliograph.documents.html_markdown import is_hidden, layout_cells, role_heading, to_markdown
from heliograph.errors import import_optional

# A block's kind and position decide whether it is removed:
#
# - elements that are furniture by their meaning (`nav`, `header`, `footer`, `aside`, their roles), unless they hold
#   prose where content is expected of them;
# - blocks without a sentence that are mostly links: bars of links to the neighbouring pages, lists of links into the
#   page itself, and those outside of the block that holds the prose;
# - blocks without a sentence that are named as furniture.
#
# A *sentence* is a run of words outside of links; only the tree of this page counts, so the same bytes always give the
# same text, whatever else a site or a workspace holds.

Node = Any

_UNREAD = frozenset({"script", "style", "noscript", "template", "select", "option", "textarea", "datalist", "head"})
_INLINE = frozenset({
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "button", "cite", "code", "data", "del", "dfn", "em",
    "font", "i", "img", "input", "ins", "kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike",
    "strong", "sub", "sup", "time", "tt", "u", "var", "wbr", "svg", "math", "object",
})  # fmt: skip
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_ROLES = {
    **dict.fromkeys(("navigation", "menu", "menubar", "toolbar", "tablist", "search", "directory", "doc-toc"), "nav"),
    "banner": "header",
    "contentinfo": "footer",
    "complementary": "aside",
    "dialog": "dialog",
    "alertdialog": "dialog",
    "main": "main",
}
_SECTIONS = frozenset({"nav", "header", "footer", "aside", "dialog"})
# Names of blocks without a sentence that lead elsewhere, in any position ...
_LEADING_NAMES = (
    r"nav|navbar|navigation|menu|sidenav|breadcrumbs?|crumbs|paginat(?:ion|or)|pager|skip|skip-link|toolbar|toc|"
    r"table-of-contents|prev-next|social|share|sharing|searchbox|search-form|cookies?|consent|gdpr|adsbygoogle"
)
# ... and names of others, at the edges of the content.
_OUTER_NAMES = (
    r"sidebar|side-bar|footer|masthead|banner|advert|advertisement|ads|promo|sponsor(?:ed)?|related|recommended|"
    r"newsletter|subscribe|subscription|signup|popup|modal|overlay|respond|widget|buttons"
)
_LEADS = re.compile(rf"(?:^|[-_ ])(?:{_LEADING_NAMES})(?:$|[-_ ])", re.IGNORECASE)
_NAMES = re.compile(rf"(?:^|[-_ ])(?:{_LEADING_NAMES}|{_OUTER_NAMES})(?:$|[-_ ])", re.IGNORECASE)
# Notes belong to the text that they explain, even if they are only links to what it quotes.
_NOTES = re.compile(r"(?:^|[-_ ])(?:footnotes?|endnotes?)(?:$|[-_ ])", re.IGNORECASE)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")
_STEPS = frozenset({"next", "prev", "previous", "up", "start", "home", "contents", "index", "first", "last", "top"})
_STEP_KEYS = frozenset({"n", "p", "u", "h"})
_STEP_WORDS = frozenset({
    "next", "prev", "previous", "up", "home", "top", "start", "back", "forward", "contents", "index", "toc",
    "first", "last", "return", "上一页", "下一页", "上一頁", "下一頁", "上一级", "上一級", "上一节", "下一节",
    "上一章", "下一章", "上页", "下页", "起始页", "首页", "首頁", "主页", "目录", "目錄", "索引", "返回", "顶部",
    "返回顶部", "回到顶部", "«", "»", "‹", "›", "<", ">", "<<", ">>", "←", "→", "↑", "⟵", "⟶",
})  # fmt: skip
# The footer of a page, which may hold sentences.
_FOOT = re.compile(r"(?:^|\s)(?:(?:page|site|doc|document|main|global)[-_]?)?foot(?:er)?(?:\s|$)", re.IGNORECASE)
_LONGEST_FOOT = 600
_LISTS = frozenset({"ul", "ol", "dl", "table", "pre"})
# How many links of a block are compared with the rest of the page.
_MOST_COMPARED = 50
# In words.
_LONGEST_NAME = 2
_COPYRIGHT = re.compile(r"\s*(?:©|\(c\)\s|copyright\b|版权所有|版權所有)", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?:;])[\"'”’)\]]*\s+|(?<=[。！？；：])")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_WORD = re.compile(r"[^\W\d_]{2,}|[AaI]\b")
_LEAST_WORDS, _LEAST_WORDS_WITHOUT_END = 5, 12
_LEAST_WIDE, _LEAST_WIDE_WITHOUT_END = 8, 24
# The block that holds the content is the innermost with this share of the prose.
_SHARE_OF_PROSE = 0.9
_MOSTLY_LINKS = 0.6
_LEAST_LINKS = 3
_LONGEST_BAR, _LONGEST_STEP = 400, 40
_MANY_LINKS = 0.3
# A navigation that holds more of the prose than this is none.
_SHARE_OF_SECTION = 0.3
_ARTICLES = frozenset({"article", "section", "blockquote", "figure"})
# The parts of a list, a table or a definition are judged together with the whole.
_PARTS = frozenset({"li", "dd", "dt", "tr", "td", "th", "tbody", "thead", "tfoot", "caption", "summary", "legend"})
_DATA = frozenset({"td", "dd", "figcaption"})
_LEAVES = frozenset({"p", "pre", "ul", "ol", "dl", "table", "blockquote", "figure", "details", *_PARTS})
_MAX_DEPTH = 150
_LEAST_LEFT = 0.1
_LEAST_CHARACTERS = 200


@dataclass(slots=True, eq=False)
class _Block:
    """A non-inline element, with the content of it and of those below it, counted in characters without spaces."""

    node: Node
    tag: str
    parent: _Block | None
    classes: str = ""
    id: str = ""
    children: list[_Block] = field(default_factory=list["_Block"])
    own: list[str] = field(default_factory=list[str])
    linked: list[str] = field(default_factory=list[str])
    characters: int = 0
    link_characters: int = 0
    links: int = 0
    links_within: int = 0
    listed: int = 0
    steps: int = 0
    marked_steps: int = 0
    prose: int = 0
    data: int = 0
    headings: int = 0
    titles: int = 0
    controls: int = 0
    core: int = 0
    is_hidden: bool = False

    def is_named(self, names: re.Pattern[str]) -> bool:
        """Return whether its author gave it one of these names; an id that only repeats its heading does not count."""
        if names.search(_HUMP.sub("-", self.classes)):
            return True
        if not (self.id and names.search(_HUMP.sub("-", self.id))):
            return False
        # Page generators derive ids from headings.
        headings = (block.text() for block in _downwards(self) if block.is_heading())
        return self.id.lower() not in {re.sub(r"\W+", "-", text).strip("-").lower() for text in headings}

    def is_heading(self) -> bool:
        return self.tag in _HEADINGS

    def text(self) -> str:
        """Return the words directly in this block."""
        return " ".join("".join((*self.own, *self.linked)).split())

    def link_share(self) -> float:
        return self.link_characters / max(1, self.characters)


# Menus that open when their word is clicked, as Bootstrap sets them into sentences.
_MENUS = '[data-toggle="dropdown"] + ul.dropdown-menu, [data-bs-toggle="dropdown"] + ul.dropdown-menu'


def remove_furniture(body: Node, title: str = "") -> int:
    """Remove everything but the content from the body of a page; a block that holds the title stays.

    Returns:
        How many visible characters were removed, spaces not counted.
    """
    for node in body.css(f"script, style, noscript, template, {_MENUS}"):
        node.decompose()
    # Of alternatives of which a script would show one, such as the keys of each system, the last is shown.
    for last in body.css("span > [hidden]:last-child:not(:first-child)"):
        others = last.parent.iter(include_text=True) if last.parent is not None else ()
        if all("hidden" in node.attributes if node.is_element_node else not node.text().strip() for node in others):
            del last.attrs["hidden"]
    root = _read_blocks(body)
    judge = _Judge(root, "".join(title.split()).casefold())
    doomed = judge.furniture()
    omitted = sum(block.characters for block in doomed)
    # The footer says nothing about how much content there is.
    left = root.characters - omitted + judge.foot_characters
    if left < min(_LEAST_CHARACTERS, _LEAST_LEFT * root.characters) and not judge.has_heading_or_main():
        # A page of nothing but furniture is kept whole.
        doomed = [block for block in doomed if block.is_hidden]
        omitted = sum(block.characters for block in doomed)
    omitted += sum(_remove_bare_bars(block) for block in judge.kept())
    for block in doomed:
        block.node.decompose()
    return omitted


# A class that marks a heading, perhaps with its level in a number: "title", "section2-title", "h3".
_HEADING_CLASS = re.compile(
    r"(?:^|\s)(?:h(?P<h>[1-6])"
    r"|(?:(?P<part>page|doc|document|article|book|chapter|section|sect|subsection|subsubsection|topic|level)"
    r"(?:[-_]?(?P<number>[1-5]))?[-_]?(?:header[-_])?)?(?P<what>title|heading|headline|header)(?:[-_]?(?P<last>[1-6]))?)"
    r"(?=\s|$)",
    re.IGNORECASE,
)
_PART_LEVELS = {
    **dict.fromkeys(("page", "doc", "document", "article", "book", "chapter"), 1),
    "subsection": 3,
    "subsubsection": 4,
}
_LEVEL_OF_BOLD = 2
_LONGEST_HEADING = 120
# "Figure 1. Wick" only describes the content beside it.
_CAPTION = re.compile(
    r"(?:figure|example|table|fig|abbildung|abb|beispiel|tabelle|tableau|exemple)\b\.? ?\d", re.IGNORECASE
)
_NO_HEADING_END = re.compile(r"[.,;:!。，；：！]$")
_LARGE = frozenset({"4", "5", "6", "7", "+1", "+2", "+3", "+4"})
_NO_HEADING_WITHIN = frozenset(
    {"a", "blockquote", "caption", "dd", "dt", "figure", "form", "label"}
    | {"li", "nav", "pre", "summary", "table", "td", "th"}
)
_LEAST_BOLD = 2


def mark_headings(body: Node) -> None:
    """Mark the headings of a page without headings below its title, by giving them a heading's role.

    They are elements with a heading's class, else short paragraphs that are bold or large throughout, if there are
    several.
    """
    if body.css_first("h2, h3, h4, h5, h6, [role=heading]") is not None:
        return
    named = False
    for node in body.css("[class*=title i], [class*=head i], .h1, .h2, .h3, .h4, .h5, .h6"):
        match = _HEADING_CLASS.search(node.attributes.get("class") or "")
        if match is None or node.tag not in ("div", "p") or not _can_be_heading(node):
            continue
        if match["what"] == "header" and not match["number"]:
            # Content above the text may be anything.
            continue
        level = int(match["h"] or match["last"] or 0) or int(match["number"] or 0) + 1
        if not (match["h"] or match["last"] or match["number"]):
            level = _PART_LEVELS.get((match["part"] or "").lower(), 2)
        _mark_heading(node, level)
        named = True
    if named:
        return
    found: dict[int, Node] = {}
    seen: set[int] = set()
    for bold in body.css("b, strong, big, font[size]"):
        if bold.tag == "font" and (bold.attributes.get("size") or "") not in _LARGE:
            continue
        node = bold.parent
        while node is not None and node.tag in _INLINE:
            node = node.parent
        # Either the first element of a block is all of it, or none is a heading.
        if node is None or node.mem_id in seen or node.tag not in ("p", "div", "center"):
            continue
        seen.add(node.mem_id)
        if _letters(bold) == _letters(node) and _can_be_heading(node):
            found[node.mem_id] = node
    # With a line or two, bold may be mere emphasis.
    if len(found) >= _LEAST_BOLD and sum(len(_letters(node)) for node in found.values()) < 0.3 * len(_letters(body)):
        for node in found.values():
            _mark_heading(node, _LEVEL_OF_BOLD)


def _mark_heading(node: Node, level: int) -> None:
    node.attrs["role"] = "heading"
    node.attrs["aria-level"] = str(level)


def _letters(node: Node) -> str:
    return "".join(node.text().split())


def _can_be_heading(node: Node) -> bool:
    """Return whether a block is short and no sentence, holds no heading, code or table, and is no part of a list."""
    words = " ".join(node.text().split())
    if not any(character.isalpha() for character in words) or len(words) > _LONGEST_HEADING or _CAPTION.match(words):
        return False
    if _NO_HEADING_END.search(words) or node.css_first("h1, pre, table, ul, ol, dl, img, [role=heading]") is not None:
        return False
    if any(inner.mem_id != node.mem_id for inner in node.css("p")):
        return False
    # A part of a heading belongs to the whole.
    above = node.parent
    while above is not None and above.tag not in _NO_HEADING_WITHIN:
        if above.attributes and above.attributes.get("role") == "heading":
            return False
        above = above.parent
    return above is None


def _read_blocks(body: Node) -> _Block:
    root = _Block(body, "body", None)
    blocks = [root]
    # Nodes to visit, each with its block and whether that is within a link.
    waiting: list[tuple[Node, _Block, bool]] = [(body.first_child, root, False)] if body.first_child else []
    while waiting:
        node, block, is_linked = waiting.pop()
        if (following := node.next) is not None:
            waiting.append((following, block, is_linked))
        if node.is_text_node:
            (block.linked if is_linked else block.own).append(node.text_content or "")
            continue
        tag: str = node.tag or ""  # pyright: ignore[reportAssignmentType]
        if not node.is_element_node or tag in _UNREAD:
            block.controls += tag in ("select", "textarea")
            continue
        attributes = node.attributes
        hidden = bool(attributes) and is_hidden(attributes)
        if tag not in _INLINE or hidden:
            role = (attributes.get("role") or "").strip().lower()
            classes, id_ = attributes.get("class") or "", attributes.get("id") or ""
            kind = role_heading(attributes) or _ROLES.get(role, tag) if role else tag
            inner = _Block(node, kind, block, classes, id_, is_hidden=hidden)
            block.children.append(inner)
            blocks.append(inner)
            block = inner
        elif tag == "a":
            if "href" in attributes:
                is_linked = True
                block.links += 1
                block.links_within += (attributes["href"] or "").startswith("#")
                is_marked = _is_marked_step(attributes)
                block.marked_steps += is_marked
                block.steps += is_marked or _is_step_word(_link_words(node))
        elif tag == "img":
            (block.linked if is_linked else block.own).append(attributes.get("alt") or "")
        elif tag in ("button", "input"):
            block.controls += 1
        if (child := node.first_child) is not None:
            waiting.append((child, block, is_linked))
    for block in reversed(blocks):
        _sum_up(block)
    return root


def _sum_up(block: _Block) -> None:
    """Complete a block whose children are complete, and add it to its parent."""
    own, linked = "".join(block.own), "".join(block.linked)
    own_length = len("".join(own.split())) if own and not own.isspace() else 0
    linked_length = len("".join(linked.split())) if linked else 0
    block.characters += own_length + linked_length
    block.link_characters += linked_length
    if block.tag == "pre" or (own_length and _has_sentence(own)):
        block.prose += own_length + linked_length
        block.core += own_length + linked_length
    elif block.tag in _DATA:
        block.data += own_length
    if block.tag in _PARTS:
        block.listed = block.links
    block.headings += block.tag in _HEADINGS
    block.titles += block.tag == "h1"
    parent = block.parent
    if parent is None:
        return
    parent.characters += block.characters
    if block.is_hidden:
        return
    parent.link_characters += block.link_characters
    parent.links += block.links
    parent.links_within += block.links_within
    parent.listed += block.listed
    parent.steps += block.steps
    parent.marked_steps += block.marked_steps
    parent.controls += block.controls
    parent.headings += block.headings
    parent.titles += block.titles
    parent.data += block.data
    parent.prose += block.prose
    if block.core and block.tag not in _SECTIONS and not block.is_named(_NAMES):
        parent.core += block.core


def _has_sentence(text: str) -> bool:
    """Return whether a text holds a sentence: a run of words with an end, or one too long to need an end."""
    if len(text) < _LEAST_WIDE:
        return False
    pieces = _SENTENCE_END.split(text)
    for index, piece in enumerate(pieces):
        has_end = index < len(pieces) - 1 or piece.rstrip()[-1:] in tuple(".!?:;。！？；：")
        if len(_WIDE.findall(piece)) >= (_LEAST_WIDE if has_end else _LEAST_WIDE_WITHOUT_END):
            return True
        if len(_WORD.findall(piece)) >= (_LEAST_WORDS if has_end else _LEAST_WORDS_WITHOUT_END):
            return True
    return False


class _Judge:
    """Decides which blocks of a page are furniture."""

    def __init__(self, root: _Block, title: str) -> None:
        self._root = root
        self._title = title
        self._content = _find_content(root, title)
        self._path = set(_upwards(self._content))
        self._has_title = False
        self._is_begun = False
        self._begins_with_heading = _begins_with_heading(self._content)
        # Whether the current block stands directly before the content, which has no heading of its own.
        self._is_next = False
        self._doomed: list[_Block] = []
        self.foot_characters = 0
        # All text of the page, without white space, computed when needed.
        self._said: str | None = None

    def furniture(self) -> list[_Block]:
        """Return the blocks to remove, none within another."""
        # Blocks beside the path to the content are judged first, then those within it.
        after: list[_Block] = []
        block = self._root
        while block is not self._content:
            place = next(index for index, child in enumerate(block.children) if child in self._path)
            for index, child in enumerate(block.children[:place]):
                self._is_next = index == place - 1 and not self._begins_with_heading
                self._judge_outside(child, 0, is_before=True)
            after += block.children[place + 1 :]
            block = block.children[place]
        self._walk_inside(block, 0, is_last=True)
        for child in after:
            self._judge_outside(child, 0, is_before=False)
        doomed = set(self._doomed)
        self._doomed = [
            block for block in self._doomed if block.parent is None or doomed.isdisjoint(_upwards(block.parent))
        ]
        return self._doomed

    def _is_named_foot(self, block: _Block) -> bool:
        """Return whether a block at the end of the page is named footer, is short, and leads elsewhere."""
        return (
            block.links > 0
            and block.characters <= _LONGEST_FOOT
            and not block.headings
            and (not block.prose or block.link_share() >= _MANY_LINKS)
            and _FOOT.search(f"{block.classes} {block.id}") is not None
        )

    def _are_said_again(self, block: _Block) -> bool:
        """Return whether most links of a block are names, or repeat text of the page, such as its headings."""
        if self._said is None:
            self._said = "".join(self._root.node.text().split()).casefold()
        first = islice(block.node.css("a[href]"), _MOST_COMPARED)
        links = [words for link in first if len(words := link.text().split()) > _LONGEST_NAME]
        again = sum(self._said.count("".join(words).casefold()) > 1 for words in links)
        return 2 * len(links) < min(block.links, _MOST_COMPARED) or 2 * again >= len(links)

    def kept(self) -> Iterator[_Block]:
        """Yield the blocks that stay."""
        gone = set(self._doomed)
        waiting = [self._root]
        while waiting:
            block = waiting.pop()
            if block not in gone:
                yield block
                waiting += block.children

    def has_heading_or_main(self) -> bool:
        """Return whether the remaining blocks have a main part, or begin with a heading of the first level."""
        return self._content.tag == "main" or self._has_title

    def _judge_outside(self, block: _Block, depth: int, *, is_before: bool) -> None:
        """Judge a block that stands before or after the one that holds the content."""
        if block.characters and not block.is_hidden and block.is_named(_NOTES):
            return
        if self._is_furniture_outside(block, is_before=is_before):
            self._doomed.append(block)
            return
        self._has_title |= block.tag == "h1"
        # Field names in a data table belong to the values beside them.
        is_data = block.tag == "table" and block.data > 0 and not block.steps and layout_cells(block.node) is None
        if depth < _MAX_DEPTH and not is_data:
            for child in block.children:
                self._judge_outside(child, depth + 1, is_before=is_before)

    def _is_furniture_outside(self, block: _Block, *, is_before: bool) -> bool:
        if block.is_hidden or block.tag == "dialog" or _is_bar_of_steps(block):
            return True
        has_plain_prose = block.prose > 0 and block.link_share() < _MANY_LINKS
        if block.tag == "footer":
            return True
        if block.tag == "nav":
            return block.prose < _SHARE_OF_SECTION * self._root.prose or not has_plain_prose
        if block.tag == "aside":
            return not has_plain_prose or block.controls > 0 or block.is_named(_NAMES)
        if block.titles:
            return False
        if block.tag == "header":
            return not (has_plain_prose and block.headings)
        if block.prose:
            if block.is_named(_NAMES) and (block.controls or not has_plain_prose):
                return True
            if not is_before and self._is_named_foot(block):
                self.foot_characters += block.characters
                return True
            return not block.children and bool(_COPYRIGHT.match(block.text()))
        if block.data and block.link_share() < _MANY_LINKS:
            return False
        if self._is_next and block.children and not block.is_named(_NAMES):
            return False
        if block.links or block.controls or block.is_named(_NAMES) or not is_before:
            return True
        # A subtitle, or a title that is no heading.
        return not (self._is_next or self._has_title or block.headings or _repeats(block, self._title))

    def _walk_inside(self, block: _Block, depth: int, *, is_last: bool) -> None:
        """Judge the children of a block within the content; no prose follows one that `is_last`."""
        last: _Block | None = None
        is_below_bar = False
        end = max((index for index, child in enumerate(block.children) if child.prose or child.data), default=-1)
        for index, child in enumerate(block.children):
            following = block.children[index + 1] if index + 1 < len(block.children) else None
            ends_content = is_last and index >= end
            if ends_content and self._is_begun and child.steps > 1:
                is_below_bar |= self._is_furniture_inside(child)
            # Below the links to the next page, up to a heading, only content that belongs to no page stands.
            is_below_bar &= not (child.headings or child.tag in _HEADINGS)
            says_something = child.prose or child.data or child.tag in _LISTS
            is_left_over = is_below_bar and 0 <= end < index and child.links > 0 and not says_something
            is_named_foot = ends_content and self._is_named_foot(child)
            if is_left_over or is_named_foot:
                self.foot_characters += child.characters
            if (
                is_left_over
                or is_named_foot
                or self._is_furniture_inside(child)
                or (ends_content and _is_foot(child, last))
            ):
                if (
                    last is not None
                    and last.tag in _HEADINGS
                    and last.tag != "h1"
                    and (following is None or following.tag in _HEADINGS)
                ):
                    # The heading of a removed block.
                    self._doomed.append(last)
                self._doomed.append(child)
                last = None
                continue
            last = child
            self._has_title |= child.tag == "h1"
            self._is_begun |= child.tag in _HEADINGS or (child.prose > 0 and not child.children)
            if depth < _MAX_DEPTH:
                self._walk_inside(child, depth + 1, is_last=ends_content)

    def _is_furniture_inside(self, block: _Block) -> bool:
        if block.is_hidden or block.tag == "dialog" or _is_bar_of_steps(block):
            return True
        if block.tag == "nav":
            return not block.prose or block.link_share() >= _MOSTLY_LINKS
        if block.tag == "aside":
            return not block.prose and not block.data
        if block.tag == "footer" and not any(above.tag in _ARTICLES for above in _upwards(block)):
            return True
        if block.prose or block.titles or block.tag in _HEADINGS or block.tag in _PARTS:
            return False
        if not (block.links or block.controls):
            return False
        if block.tag in ("header", "footer") and not block.headings:
            return True
        if block.is_named(_LEADS) and not block.data:
            return True
        if block.steps and 2 * block.steps >= block.links:
            return True
        share = block.link_share()
        if min(block.links_within, block.listed) >= max(_LEAST_LINKS, 0.9 * block.links) and share >= _MOSTLY_LINKS:
            # A list of the headings of this page; if it has text that the page has nowhere else, it is content.
            return not block.data and self._are_said_again(block)
        if self._is_begun or block.headings or block.data:
            return False
        return share >= _MOSTLY_LINKS and (block.links > 1 or not "".join(block.own).strip())


def _is_bar_of_steps(block: _Block) -> bool:
    """Return whether a block holds marked links to neighbouring pages, whose titles may read like sentences."""
    return (
        block.marked_steps >= 2
        and 2 * block.marked_steps >= block.links
        and block.characters <= _LONGEST_BAR
        and not block.headings
        and block.tag not in _PARTS
    )


def _remove_bare_bars(block: _Block) -> int:
    """Remove links to neighbouring pages that stand between blocks; return how many characters they had."""
    if not (block.children and block.linked and block.steps):
        return 0
    omitted = 0
    blocks = {child.node.mem_id for child in block.children}
    runs: list[list[Node]] = [[]]
    child = block.node.first_child
    while child is not None:
        if child.mem_id in blocks:
            runs.append([])
        else:
            runs[-1].append(child)
        child = child.next
    for run in runs:
        links = [node for node in run if node.tag == "a" and "href" in node.attributes]
        rest = "".join(node.text_content or "" if node.is_text_node else node.text() for node in run if node.tag != "a")
        # A link without a target here, such as "Next" on the last page, is a bare word.
        if (
            links
            and all(_is_step_word(word) for word in re.findall(r"\w+", rest))
            and 2 * sum(_is_marked_step(link.attributes) or _is_step_word(link.text()) for link in links) >= len(links)
        ):
            omitted += sum(len("".join(node.text().split())) for node in links)
            for node in run:
                node.remove()
    return omitted


def _is_marked_step(attributes: Mapping[str, str | None]) -> bool:
    """Return whether a link is marked as leading to the next page or the like, or to this page in another language."""
    return (
        "hreflang" in attributes
        or ("accesskey" in attributes and (attributes["accesskey"] or "").lower() in _STEP_KEYS)
        or ("rel" in attributes and not _STEPS.isdisjoint((attributes["rel"] or "").lower().split()))
    )


def _link_words(link: Node) -> str:
    """Return the words of a link; for a picture, its description."""
    if words := link.text().strip():
        return words
    image = link.css_first("img")
    return (image.attributes.get("alt") or "") if image is not None else ""


def _is_step_word(text: str) -> bool:
    return len(text) < _LONGEST_STEP and " ".join(text.split()).strip("[]()").casefold() in _STEP_WORDS


def _is_foot(block: _Block, previous: _Block | None) -> bool:
    """Return whether the last block of the content is a footer: a copyright, or named so and without a sentence."""
    if previous is not None and previous.tag in _HEADINGS:
        return False
    if block.tag in _HEADINGS or block.tag in _PARTS:
        return False
    return bool(_COPYRIGHT.match(block.text())) or (
        not (block.prose or block.data)
        and block.is_named(_NAMES)
        and bool(block.links or block.controls or "foot" in block.classes + block.id)
    )


def _find_content(root: _Block, title: str) -> _Block:
    """Return the block marked as main if the prose is there, else the innermost block that holds the prose.

    The block must hold the page's title too, if a heading repeats the title of the page's head.
    """
    blocks = list(_downwards(root))
    for tag in ("main", "article"):
        found = [block for block in blocks if block.tag == tag]
        if len(found) == 1 and found[0].characters and 2 * found[0].core >= root.core:
            return found[0]
    headings = [block for block in blocks if block.tag in ("h1", "h2") and _repeats(block, title)]
    if not headings:
        level = min((block.tag for block in blocks if block.tag in _HEADINGS), default="")
        headings = [block for block in blocks if block.tag == level]
        headings = headings if len(headings) == 1 else []
    around = set(_upwards(headings[-1])) if headings else set()
    block = root
    while root.core:
        inner = next((child for child in block.children if child.core >= _SHARE_OF_PROSE * root.core), None)
        if inner is None or inner.tag in _LEAVES or inner.tag in _SECTIONS or (around and inner not in around):
            break
        block = inner
    return block


def _begins_with_heading(block: _Block) -> bool:
    """Return whether the first words in a block are a heading."""
    while not block.is_heading():
        first = next((child for child in block.children if child.characters), None)
        if first is None or block.text():
            return False
        block = first
    return True


def _repeats(heading: _Block, title: str) -> bool:
    text = heading.text().replace(" ", "").strip("¶#").casefold()
    return bool(text) and bool(title) and (text in title or title in text)


def _upwards(block: _Block) -> Iterator[_Block]:
    above: _Block | None = block
    while above is not None:
        yield above
        above = above.parent


def _downwards(block: _Block) -> Iterator[_Block]:
    waiting = [block]
    while waiting:
        below = waiting.pop()
        yield below
        waiting += reversed(below.children)


_DECLARED = re.compile(
    rb"""<meta[^>]{0,200}charset\s*=\s*["']?([\w.:-]{2,40})|<\?xml[^>]{0,100}encoding=["']([\w.-]+)""", re.IGNORECASE
)
_DECLARED_WITHIN = 4_096


class HtmlLoader(Loader):
    """Web pages."""

    suffixes = frozenset({".html", ".htm", ".xhtml", ".shtml"})
    mime_types = frozenset({"text/html", "application/xhtml+xml"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        charset = raw.charset
        if not charset and (declared := _DECLARED.search(raw.data[:_DECLARED_WITHIN])):
            with suppress(LookupError):
                charset = codecs.lookup((declared[1] or declared[2]).decode("ascii", "replace")).name
        page = parse_html(decode_text(raw.data, raw.name, charset))
        root = page.root
        metadata = {
            "language": (root.attributes.get("lang") or root.attributes.get("xml:lang") or "").strip() if root else "",
            "author": _meta(page, "author") or _meta(page, "article:author") or _meta(page, "dcterms.creator"),
            "created_at": _meta(page, "article:published_time")
            or _meta(page, "dcterms.created")
            or _meta(page, "date"),
            "modified_at": _meta(page, "article:modified_time") or _meta(page, "dcterms.modified"),
            "description": _meta(page, "description") or _meta(page, "og:description"),
        }
        body = page.body
        if body is None:
            return LoadedDocument(raw.name, _title(page), "", metadata)
        mark_headings(body)
        omitted = remove_furniture(body, _stated_title(page))
        text = to_markdown(body)
        return LoadedDocument(
            raw.name, _title(page), text + "\n" if text else "", {**metadata, "omitted_characters": omitted}
        )


def parse_html(text: str) -> Any:
    """Parse a page, or a part, into a tree as browsers do; a `MissingDependencyError` without selectolax."""
    return import_optional("selectolax.lexbor", "").LexborHTMLParser(text)


def html_to_markdown(text: str) -> str:
    """Return a part of a page that is all content, such as a mail or a chapter, as Markdown."""
    body = parse_html(text).body
    return to_markdown(body) if body is not None else ""


def _title(page: Any) -> str:
    """Return the content's heading of the first level if it has exactly one, else the page's own title."""
    headings = page.body.css("h1") if page.body is not None else []
    if len(headings) == 1 and (words := to_markdown(headings[0]).replace("\n", " ").strip()):
        return words.lstrip("\\").replace("`", "")
    return _stated_title(page)


def _stated_title(page: Any) -> str:
    title = page.css_first("head > title")
    return _meta(page, "og:title") or (title.text().strip() if title is not None else "")


def _meta(page: Any, name: str) -> str:
    node = page.css_first(f'meta[name="{name}" i], meta[property="{name}" i]')
    return " ".join((node.attributes.get("content") or "").split()) if node is not None else ""
