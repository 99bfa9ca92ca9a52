"""Reads MediaWiki's markup as Markdown: headings, lists, tables and code stay; links keep their words.

Templates are unknown here: the arguments of one that stands alone become a list, those of one in a sentence its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

from heliograph.documents.markdown import fence, markdown_table

_COMMENT = re.compile(r"<!--(?:(?!<!--).)*?-->|__[A-Z]+__|~{3,5}", re.DOTALL)
_CODE = re.compile(
    r"<(?P<tag>syntaxhighlight|source|pre|nowiki|code|tt|math)\b(?P<stated>[^<>]*)(?<!/)>"
    r"(?P<code>(?:(?!<(?P=tag)\b).)*?)</(?P=tag)\s*>",
    re.DOTALL | re.IGNORECASE,
)
_CODE_LANGUAGE = re.compile(r"""\blang\s*=\s*["']?([\w+-]+)""")
_KEPT = re.compile("\ue000(\\d+)\ue001")
_NOTE = re.compile(r"<ref\b[^<>]*?(?:/>|(?<!/)>((?:(?!<ref\b).)*?)</ref\s*>)", re.DOTALL | re.IGNORECASE)
_LINE_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][\w:-]*(?:\s[^<>=]*=[^<>]*|\s*/?)>")
_TEMPLATE = re.compile(r"(?P<before>^[ \t]*)?\{\{(?P<inside>[^{}]*)\}\}(?P<after>[ \t]*$)?", re.MULTILINE)
_NAMED = re.compile(r"\s*([^=<>\[\]\n]{1,60}?)\s*=\s*(.*?)\s*", re.DOTALL)
_TABLE = re.compile(r"^[ \t:]*\{\|((?:(?!^[ \t:]*\{\|).)*?)^[ \t]*\|\}", re.MULTILINE | re.DOTALL)
_CELL_STYLE = re.compile(r"[^|\[\]{}\n]*\|(?!\|)")
_LINK = re.compile(r"\[\[([^\[\]]*)\]\]")
_ADDRESS = re.compile(r"\[((?:https?|ftp|mailto):[^\s\[\]]+)(?:\s+([^\[\]\n]+))?\]")
_QUOTES = re.compile(r"'{2,5}")
_HEADING = re.compile(r"^(={1,6})[ \t]*(.+?)[ \t]*\1[ \t]*$", re.MULTILINE)
_ITEM = re.compile(r"^([*#:;]+)[ \t]*(.*)$")
_MOST_NESTED = 12
# Namespaces of files and categories, in the most frequent languages of wikis.
_FILES = tuple(
    f"{name}:"
    for names in (
        "file image datei bild fichier archivo файл 文件 ファイル",
        "category kategorie catégorie категория 分类",
    )
    for name in names.split()
)


def wiki_markdown(text: str) -> str:
    """Return a text in MediaWiki's markup as Markdown."""
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        """Put a placeholder for code, in which no markup is read."""
        tag, code = match["tag"].lower(), match["code"]
        language = _CODE_LANGUAGE.search(match["stated"])
        if tag in ("code", "tt", "math", "nowiki") and "\n" not in code.strip():
            words = unescape(" ".join(_TAG.sub("", code).split()))
            code = words if tag == "nowiki" or not words else f"`{words}`"
        else:
            code = f"\n\n{fence(unescape(code), language[1] if language else '')}\n\n"
        kept.append(code)
        return f"\ue000{len(kept) - 1}\ue001"

    text = _CODE.sub(keep, _COMMENT.sub("", text))
    text = _NOTE.sub(lambda match: f" ({match[1].strip()})" if (match[1] or "").strip() else "", text)
    for _ in range(_MOST_NESTED):
        text, count = _TEMPLATE.subn(_template, text)
        if not count:
            break
    text = _ADDRESS.sub(lambda match: f"[{match[2]}]({match[1]})" if match[2] else match[1], text)
    for _ in range(_MOST_NESTED):
        # A file's caption may hold links.
        text, count = _LINK.subn(_link, text)
        if not count:
            break
    for _ in range(_MOST_NESTED):
        text, count = _TABLE.subn(lambda match: f"\n\n{_table(match[1])}\n\n", text)
        if not count:
            break
    text = _QUOTES.sub("", text)
    text = _LINE_BREAK.sub("\n", text).replace("<sup>", "^")
    text = unescape(_TAG.sub("", text))
    text = _HEADING.sub(lambda match: f"{'#' * len(match[1])} {match[2]}", "\n".join(_lines(text)))
    text = _KEPT.sub(lambda match: kept[int(match[1])], text)
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def _template(match: re.Match[str]) -> str:
    name, *given = re.split(r"\|(?![^\[]*\]\])", match["inside"])
    named = [(found[1], found[2]) for value in given if (found := _NAMED.fullmatch(value))]
    if match["before"] is not None and match["after"] is not None and named:
        lines = (f"* {key}: {' '.join(value.split())}" for key, value in named if value)
        others = (value.strip() for value in given if not _NAMED.fullmatch(value))
        return "\n".join(("", *others, *lines, ""))
    # Magic words and parser functions only describe the page.
    if name.startswith("#") or (":" in name and not given):
        return match["before"] or ""
    words = " ".join(value.strip() for value in given if value.strip() and not _NAMED.fullmatch(value))
    # A citation keeps all its arguments.
    words = words or ", ".join(" ".join(value.split()) for _, value in named if value)
    return f"{match['before'] or ''}{words}{match['after'] or ''}"


def _link(match: re.Match[str]) -> str:
    target, *words = match[1].split("|")
    if target.strip().casefold().startswith(_FILES):
        # A file's last argument is its caption, if it is words and no size or position.
        caption = words[-1].strip() if words else ""
        return f"{caption} " if " " in caption or len(caption) > 12 else ""
    return (words[-1] if words else "").strip() or target.strip().lstrip(":")


def _table(inside: str) -> str:
    rows: list[list[str]] = [[]]
    caption = ""
    for line in inside.split("\n")[1:]:
        line = line.strip()
        if line.startswith("|-"):
            rows.append([])
        elif line.startswith("|+"):
            caption = _CELL_STYLE.sub("", line[2:], count=1).strip()
        elif line[:1] in ("|", "!"):
            cells = re.split(r"\|\||!!" if line[0] == "!" else r"\|\|", line[1:])
            rows[-1] += [_CELL_STYLE.sub("", cell, count=1).strip() for cell in cells]
        elif rows[-1] and line:
            rows[-1][-1] += f" {line.lstrip('*#:; ')}"
    return "\n\n".join(filter(None, (caption, markdown_table(rows))))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, with its lists as Markdown."""
    for line in text.split("\n"):
        item = _ITEM.match(line)
        if item is None:
            yield line.strip() if line.startswith(" ") else line
            continue
        marks, words = item.groups()
        depth = "  " * (len(marks) - 1)
        if set(marks) <= {":"}:
            # Replies on talk pages are indented.
            yield from ("", words, "")
        elif words:
            yield f"{'   ' * (len(marks) - 1) if '#' in marks else depth}{'1.' if marks[-1] == '#' else '-'} {words}"
