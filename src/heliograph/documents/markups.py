"""Reads reStructuredText, AsciiDoc, Org, LaTeX and Perl's POD as Markdown: headings, code, tables; no directives.

Only content that matters for search is read; lines that only instruct the formatter are left out.
"""

from __future__ import annotations

import csv
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import unescape

from heliograph.documents.info_pages import info_markdown
from heliograph.documents.markdown import fence, markdown_table
from heliograph.documents.transcripts import transcript_markdown
from heliograph.documents.wiki_text import wiki_markdown

_DIRECTIVE = re.compile(r"\.\. +(?:\|(?P<name>[^|]+)\| +)?(?P<kind>[\w:+-]+):: *(?P<said>.*)$")
_OPTION = re.compile(r":[\w -]+:(?:\s|$)")
_NOTE = re.compile(r"\.\. +\[(#?[\w*#.-]+)\] *(.*)$")
_UNDERLINE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}[ \t]*$")
_BORDER = re.compile(r"\+(?:[-=]+\+)+$")
_RULER = re.compile(r"=+(?: +=+)+$")
_FIELD = re.compile(r":([^:\n`]{1,60}): +(?=\S)")
_MOST_DEPTH = 20
_CODE = frozenset({"code-block", "code", "sourcecode", "parsed-literal", "prompt", "math", "productionlist", "doctest"})
_SILENT = """toctree contents index highlight include raw meta module currentmodule literalinclude default-role role
    sectnum section-numbering header footer tabularcolumns testsetup testcleanup graphviz autosummary plot image
    codeauthor"""
_LEFT_OUT = frozenset(_SILENT.split())
_ADMONITIONS = "note warning tip hint important caution danger error attention"
_REMARKS = {
    **{kind: kind.capitalize() for kind in _ADMONITIONS.split()},
    "seealso": "See also",
    "deprecated": "Deprecated since version",
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "todo": "To do",
}
_TITLED = frozenset(
    {"topic", "sidebar", "admonition", "rubric", "centered", "table", "container", "only", "figure", "epigraph"}
)
_RST_WORDS = (
    (re.compile(r"``([^`\n]+(?:\n[^`\n]+)?)``"), r"`\1`"),
    (re.compile(r":[\w:+.-]{1,60}:`~?([^`<]*?)\s*(?:<[^`>]*>)?`"), r"`\1`"),
    (re.compile(r"(?<![`\w])`([^`<>]+?)\s+<((?:https?|ftp|mailto):[^`>]+)>`__?"), r"[\1](\2)"),
    (re.compile(r"(?<![`\w])`([^`<>]+?)(?:\s*<[^`>]*>)?`__?"), r"\1"),
)


def rst_markdown(text: str) -> str:
    """Return reStructuredText as Markdown; heading levels follow the order in which underline styles first appear."""
    styles: list[str] = []
    words: dict[str, str] = {}
    said = "\n".join(_rst(text.expandtabs(8).split("\n"), styles, words))
    return re.sub(r"\|([\w. -]+)\|(?!\S)", lambda match: words.get(match[1], match[0]), said)


def _rst(lines: Sequence[str], styles: list[str], words: dict[str, str], depth: int = 0) -> Iterator[str]:
    if depth > _MOST_DEPTH:
        yield from lines
        return
    number = 0
    while number < len(lines):
        line = lines[number]
        indent = len(line) - len(line.lstrip(" "))
        stripped = line.strip()
        following = lines[number + 1].rstrip() if number + 1 < len(lines) else ""
        number += 1
        if not stripped:
            yield ""
        elif stripped == ".." and not following:
            # An empty comment only separates two blocks.
            yield ""
        elif stripped.startswith(".. ") or stripped == "..":
            body, number = _block(lines, number, indent)
            yield from ("", *_explicit(stripped, body, styles, words, depth + 1), "")
        elif _BORDER.match(stripped) or _RULER.match(stripped):
            end = _table_end(lines, number, is_ruled=stripped[0] == "=")
            table = textwrap.dedent("\n".join(lines[number - 1 : end])).split("\n")
            yield from ("", _grid(table) if stripped[0] == "+" else _ruled(table) if end > number else line, "")
            number = end
        elif (
            _UNDERLINE.match(stripped)
            and not indent
            and number + 1 < len(lines)
            and _is_under(following, lines[number + 1])
        ):
            yield _heading(following.strip(), "over" + stripped[0], styles)
            number += 2
        elif not indent and _is_under(stripped, following):
            yield _heading(stripped, following[0], styles)
            number += 1
        elif stripped.endswith("::") and (not following or following.startswith(" " * (indent + 1))):
            body, number = _block(lines, number, indent)
            yield from (
                _inline(line.rstrip()[:-1]) if stripped != "::" else "",
                "",
                *([fence(body)] if body.strip() else []),
                "",
            )
        else:
            field = _FIELD.match(line, indent)
            shown = f"{line[:indent]}- {field[1]}: {line[field.end() :]}" if field else line
            yield _inline(
                re.sub(
                    r"^(\s*)(?:#\.|\|(?!.*\|$))(?= )", lambda mark: mark[1] + ("1." if "#" in mark[0] else ""), shown
                )
            )


def _table_end(lines: Sequence[str], number: int, *, is_ruled: bool) -> int:
    """Return the index of the line after a table that starts before this line; `number` itself if the table never ends.

    A table with rulers may hold empty lines: it ends at a ruler that an empty line follows, or at its third.
    """
    start, rulers = number, 0
    while number < len(lines) and (is_ruled or lines[number].strip()):
        is_ruler = is_ruled and _RULER.match(lines[number].strip()) is not None
        number += 1
        rulers += is_ruler
        if is_ruler and (rulers == 2 or number == len(lines) or not lines[number].strip()):
            return number
    return start if is_ruled else number


def _is_under(title: str, line: str) -> bool:
    is_long = len(line.rstrip()) >= len(title.strip())
    return is_long and re.search(r"\w", title) is not None and _UNDERLINE.match(line) is not None


def _heading(title: str, style: str, styles: list[str]) -> str:
    if style not in styles:
        styles.append(style)
    return f"\n{'#' * min(6, styles.index(style) + 1)} {_inline(title)}\n"


def _block(lines: Sequence[str], number: int, indent: int) -> tuple[str, int]:
    """Return the block indented deeper from a line on, dedented, and the index of the line after it."""
    start = number
    while number < len(lines) and (not lines[number].strip() or lines[number].startswith(" " * (indent + 1))):
        number += 1
    return textwrap.dedent("\n".join(lines[start:number])).strip("\n"), number


def _explicit(line: str, body: str, styles: list[str], words: dict[str, str], depth: int) -> Iterator[str]:
    """Yield the content of a directive or footnote; nothing for a comment or a link target."""
    note = _NOTE.match(line)
    directive = _DIRECTIVE.match(line)
    if note:
        yield f"[{note[1].lstrip('#')}] " + " ".join(
            filter(None, (_inline(note[2]), *_rst(body.split("\n"), styles, words, depth)))
        )
    if directive is None:
        return
    kind, said = directive["kind"].removeprefix("py:").lower(), directive["said"].strip()
    given = body.split("\n")
    options: dict[str, str] = {}
    while given and _OPTION.match(given[0]):
        name, _, value = given.pop(0)[1:].partition(":")
        options[name] = value.strip()
    inside = "\n".join(given).strip("\n")
    if directive["name"]:
        words[directive["name"]] = _inline(said) if kind == "replace" else options.get("alt", "")
    elif kind in _CODE:
        # The text of a formula or paragraph may begin on the first line.
        language = said if kind in ("code-block", "code", "sourcecode") else ""
        code = inside if language == said else "\n".join(filter(None, (said, inside)))
        yield fence(code, language.split()[0] if language else "") if code.strip() else ""
    elif kind == "list-table":
        yield from (_inline(said), "", _listed(given))
    elif kind == "csv-table":
        header = [options["header"]] if options.get("header") else []
        yield from (_inline(said), "", markdown_table(list(csv.reader([*header, *given], skipinitialspace=True))))
    elif kind in _REMARKS:
        shown = "\n".join(_rst([said, *given], styles, words, depth)).strip()
        yield f"{_REMARKS[kind]}{'' if kind in ('deprecated', 'versionadded', 'versionchanged') else ':'} {shown}"
    elif kind in _LEFT_OUT:
        yield options.get("alt", "")
    else:
        title = (
            (options.get("alt", "") if kind == "figure" else said) if kind in _TITLED else f"`{said}`" if said else ""
        )
        yield from ("" if kind in ("only", "container", "class") else title, "", *_rst(given, styles, words, depth))


def _inline(line: str) -> str:
    for pattern, shown in _RST_WORDS:
        line = pattern.sub(shown, line)
    return line


def _grid(lines: list[str]) -> str:
    """Return a table drawn with borders; if cells span others, as it is drawn."""
    rows: list[list[str]] = []
    cells: list[str] = []
    for line in lines[1:]:
        if _BORDER.match(line.strip()):
            rows.append(cells)
            cells = []
            continue
        pieces = [_inline(piece.strip()) for piece in line.strip().strip("|").split("|")]
        if len(pieces) != lines[0].count("+") - 1:
            return fence("\n".join(lines))
        cells = [" ".join(filter(None, pair)) for pair in zip(cells, pieces, strict=True)] if cells else pieces
    return markdown_table(rows)


def _ruled(lines: list[str]) -> str:
    """Return a table whose columns are given by a ruler above them."""
    columns = [(match.start(), match.end()) for match in re.finditer("=+", lines[0])]
    rows: list[list[str]] = []
    for line in lines[1:]:
        if not line.strip() or _RULER.match(line.strip()) or re.fullmatch(r"[ -]+", line):
            continue
        ends = [start for start, _ in columns[1:]] + [len(line) + 1]
        cells = [_inline(line[start:end].strip()) for (start, _), end in zip(columns, ends, strict=True)]
        if cells[0] or not rows:
            rows.append(cells)
        else:
            rows[-1] = [" ".join(filter(None, pair)) for pair in zip(rows[-1], cells, strict=True)]
    return markdown_table(rows)


def _listed(lines: list[str]) -> str:
    """Return a table written as a list of lists."""
    rows: list[list[str]] = []
    for line in lines:
        row = re.match(r"\s*\* +-(?: +(.*))?$", line)
        cell = re.match(r"\s+-(?: +(.*))?$", line)
        if row:
            rows.append([_inline(row[1] or "")])
        elif cell and rows:
            rows[-1].append(_inline(cell[1] or ""))
        elif rows and line.strip():
            rows[-1][-1] += f" {_inline(line.strip())}"
    return markdown_table(rows)


_ADOC_TABLE = re.compile(r"[|,:!]===$")
_ADOC_LEFT_OUT = re.compile(r"//|(?:include|toc|ifdef|ifndef|endif)::")
_ADOC_STYLE = re.compile(r"\[([\w#.%\"'*+-][^\[\]]*|\[[^\[\]]+\])?\]")
# Titles may be underlined, with a different mark per level.
_ADOC_UNDERLINE = re.compile(r"([=~^+-])\1{3,}")
_WORD_START = re.compile(r"[^\W_]")
_ADOC_ATTRIBUTE = re.compile(r":(!?[\w-]+!?):[ \t]*(.*)$")
_ADOC_WORDS = (
    (re.compile(r"<<[^<>,\n]+,\s*([^<>\n]+)>>"), r"\1"),
    (re.compile(r"<<#?([^<>\n]+)>>"), r"\1"),
    (re.compile(r"\b(?:link|xref|mailto):([^\s\[\]]{1,300})\[\]"), r"\1"),
    (re.compile(r"\b(?:link|xref|mailto):[^\s\[\]]{1,300}\[([^\[\],\n]+)[^\[\]\n]*\]"), r"\1"),
    (re.compile(r"\b(https?://[^\s\[\]]{1,300})\[([^\[\],^\n]+)[^\[\]\n]*\]"), r"[\2](\1)"),
    (re.compile(r"\b(?:image|icon|video)::?[^\s\[\]]{1,300}\[([^\[\]\n,]*)[^\[\]\n]*\]"), r"\1"),
    (re.compile(r"\b(?:kbd|btn|menu|footnote|pass):[^\s\[\]]{0,300}\[([^\[\]\n]*)\]"), r" (\1)"),
    (re.compile(r"`\+([^`\n]+)\+`"), r"`\1`"),
    (re.compile(r"\[\[[^\[\]\n]+\]\]|\[#[^\[\]\n]+\](?=\S)"), ""),
)


def adoc_markdown(text: str) -> str:
    """Return AsciiDoc as Markdown, with its attributes substituted."""
    lines = text.split("\n")
    attributes: dict[str, str] = {}
    out: list[str] = []
    language = style = ""
    number = 0
    while number < len(lines):
        line = lines[number].rstrip()
        number += 1
        is_mark = len(line) >= 4 and len(set(line)) == 1
        under = lines[number].rstrip() if number < len(lines) else ""
        if _ADOC_UNDERLINE.fullmatch(under) and abs(len(under) - len(line)) <= 1 and _WORD_START.match(line):
            out.append(f"{'#' * (1 + '=-~^+'.index(under[0]))} {_adoc_line(line, attributes)}")
            number += 1
        elif attribute := _ADOC_ATTRIBUTE.match(line):
            attributes[attribute[1]] = attribute[2]
            out += [attribute[2]] if attribute[1] in ("description", "keywords") else []
        elif (is_mark and line[0] in "-.+/") or line.startswith("```") or _ADOC_TABLE.match(line):
            closing = "```" if line.startswith("```") else line
            end = next((place for place in range(number, len(lines)) if lines[place].rstrip() == closing), len(lines))
            inside, number = lines[number:end], end + 1
            if _ADOC_TABLE.match(line):
                out += ["", _adoc_table(inside, style, line[0]), ""]
            elif line[0] != "/":
                out += ["", fence("\n".join(inside), language or line.strip("`-.+")), ""]
            language = style = ""
        elif (is_mark and line[0] in "=*_") or line == "--" or _ADOC_LEFT_OUT.match(line):
            out.append("")
        elif stated := _ADOC_STYLE.fullmatch(line):
            kind, _, rest = (stated[1] or "").partition(",")
            is_code = kind.partition("%")[0] in ("source", "", "listing")
            language = rest.split(",")[0].strip() if is_code else language
            style = line if "cols" in line or "header" in line or "format" in line else style
            is_remark = kind in ("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION")
            out += [
                f"{kind.capitalize()}:" if is_remark else f"{rest}:\n" if rest and kind in ("quote", "verse") else ""
            ]
        else:
            out.append(_adoc_line(line, attributes))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip() + "\n"


def _adoc_line(line: str, attributes: Mapping[str, str]) -> str:
    line = re.sub(r"\{([\w-]+)\}", lambda match: attributes.get(match[1], match[0]), line)
    for pattern, shown in _ADOC_WORDS:
        line = pattern.sub(shown, line)
    heading = re.match(r"(={1,6})[ \t]+(?=\S)", line)
    item = re.match(r"[ \t]*(\*{1,5}|\.{1,5})[ \t]+(?=\S)", line)
    term = re.match(r"[ \t]*(\S.{0,100}?)(:{2,4}|;;)(?:[ \t]+|$)", line)
    if heading:
        return f"{'#' * len(heading[1])} {line[heading.end() :]}"
    if item:
        return f"{'   ' * (len(item[1]) - 1)}{'1.' if item[1][0] == '.' else '-'} {line[item.end() :]}"
    if term:
        return f"- {term[1]}: {line[term.end() :]}".rstrip()
    # A title of the next block, or a continuation that attaches a block to a list.
    return "" if line == "+" else line[1:] if re.match(r"\.[^\W_]", line) else line


def _adoc_table(lines: Sequence[str], style: str, mark: str) -> str:
    if mark != "|" or "csv" in style:
        return markdown_table(list(csv.reader(lines, delimiter="," if mark != ":" else ":")))
    stated = re.search(r"\bcols\s*=\s*[\"']?([^\"'\]]+)", style)
    counts = [(column.rpartition("*")[0] or "1") for column in re.split("[,;]", stated[1])] if stated else []
    width = sum(int(count) if count.isdigit() else 1 for count in counts)
    cells: list[str] = []
    first = 0
    for line in lines:
        found = re.split(r"(?:^|(?<=\s))(?:\d+(?:\.\d+)?[+*])?[.<^>]*[aehlmsd]?\|", line)
        if found[0].strip() and cells:
            cells[-1] = f"{cells[-1]} {found[0].strip()}"
        cells += [cell.strip() for cell in found[1:]]
        first = first or len(cells)
    width = width or first or 1
    return markdown_table(
        [[_adoc_line(cell, {}) for cell in cells[place : place + width]] for place in range(0, len(cells), width)]
    )


_ORG_BLOCK = re.compile(
    r"^[ \t]*#\+begin_(src|example|quote|verse|center)\b[ \t]*([\w+-]*)[^\n]*\n"
    r"((?:(?!^[ \t]*#\+begin_).)*?)^[ \t]*#\+end_\1\b[^\n]*$",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)
# Instruction lines, and the property drawers of an entry; the content of other drawers stays.
_ORG_LINE = re.compile(
    r"^[ \t]*(?:#\+(?!title:|subtitle:|caption:|description:)[\w-]+:[^\n]*|# [^\n]*|CLOCK:[^\n]*"
    r"|:PROPERTIES:[ \t]*\n(?:[ \t]*:(?!PROPERTIES:)[^\n]*\n)*?[ \t]*:END:[ \t]*|:[\w-]+:[ \t]*)\n",
    re.MULTILINE | re.IGNORECASE,
)


def org_markdown(text: str) -> str:
    """Return Org as Markdown, under its title."""
    title = re.search(r"^#\+title:[ \t]*(\S[^\n]*)", text, re.MULTILINE | re.IGNORECASE)
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(fence(textwrap.dedent(match[3]), match[2]) if match[1].lower() in ("src", "example") else match[3])
        return f"\ue000{len(kept) - 1}\ue001"

    text = _ORG_BLOCK.sub(keep, text)
    text = re.sub(r"^[ \t]*#\+title:[^\n]*\n?", "", text, flags=re.MULTILINE | re.IGNORECASE)
    text = re.sub(
        r"^[ \t]*#\+(?:subtitle|caption|description):[ \t]*",
        "",
        _ORG_LINE.sub("", text),
        flags=re.MULTILINE | re.IGNORECASE,
    )
    below = 1 if title else 0
    text = re.sub(
        r"^(\*{1,6})(?=[ \t]+\S)", lambda match: "#" * min(6, len(match[1]) + below), text, flags=re.MULTILINE
    )
    text = re.sub(r"\[\[[^\[\]]*\]\[([^\[\]]*)\]\]", r"\1", text)
    text = re.sub(r"\[\[([^\[\]]*)\]\]", r"\1", text)
    text = re.sub(r"^([ \t]*\|[-+]+)\|[ \t]*$", lambda match: match[0].replace("+", "|"), text, flags=re.MULTILINE)
    text = re.sub("\ue000(\\d+)\ue001", lambda match: kept[int(match[1])], text)
    return f"# {title[1].strip()}\n\n{text.lstrip()}" if title else text


_TEX_LEVELS = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5}
# The content of braces, with nested braces.
_TEX_GROUP = r"\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})+)\}"
_TEX_STATED = re.compile(
    rf"\\(title|subtitle|author|date|abstract|keywords)\*?(?:\[[^\[\]\n]*\])?{_TEX_GROUP}"
    r"|\\begin\{abstract\}((?:(?!\\begin\{abstract\}).)*?)\\end\{abstract\}",
    re.DOTALL,
)
# A preamble at least this long that is most of the file holds the text itself, in macros that the document assembles.
_TEX_USUAL_BEFORE = 20_000
_TEX_TITLE = re.compile(
    rf"^[ \t]*\\({'|'.join(_TEX_LEVELS)})\*?(?:\[[^\[\]\n]*\])?\{{((?:[^{{}}\n]|\{{[^{{}}\n]*\}})+)\}}", re.MULTILINE
)
_TEX_CODE = re.compile(
    r"\\begin\{(verbatim|lstlisting|minted)\*?\}(?:\[[^\[\]\n]*\]|\{[^{}\n]*\})*\n?"
    r"((?:(?!\\begin\{\1).)*?)\\end\{\1\*?\}",
    re.DOTALL,
)
_TEX_VERBATIM = re.compile(r"\\(?:verb\*?|lstinline)([^\w\s*{\[])([^\n]{1,200}?)\1")
_TEX_EQUATION = re.compile(
    r"\\begin\{(equation|align(?:at)?|flalign|gather|multline|eqnarray|displaymath)(\*?)\}"
    r"((?:(?!\\begin\{\1).)*?)\\end\{\1\2\}",
    re.DOTALL,
)
_TEX_TABLE = re.compile(r"\\begin\{(tabular[x*]?|longtable)\}((?:(?!\\begin\{\1).)*?)\\end\{\1\}", re.DOTALL)
_TEX_LABEL = re.compile(r"\\label\{[^{}\n]*\}")
# In brackets, a name (of a theorem) is longer than a placement (of a figure), and an option has an equals sign.
_TEX_DROPPED = re.compile(
    r"\\(?:label|index|[vh]space|includegraphics|bibliography(?:style)?|usepackage|(?:this)?pagestyle|input|include)"
    r"\*?(?:\[[^\[\]\n]*\])?\{[^{}\n]*\}"
    r"|\\(?:begin|end)\{[^{}\n]*\}(?:\[(?:[^\[\]\n ]{0,5}|[^\[\]\n=]*=[^\[\]\n]*)\])?"
)
_TEX_WORDS = (
    (re.compile(r"^[ \t]*\\item[ \t]*\[([^\[\]\n]*)\][ \t]*", re.MULTILINE), r"- \1: "),
    (re.compile(r"^[ \t]*\\item\b[ \t]*", re.MULTILINE), "- "),
    (re.compile(r"\\(?:texttt|code|lstinline|verb)\*?\{([^{}\n]*)\}"), r"`\1`"),
    (re.compile(r"\\href\{([^{}\n]*)\}\{([^{}\n]*)\}"), r"[\2](\1)"),
    (re.compile(rf"\\(?:footnote|thanks)(?:\[\d+\])?{_TEX_GROUP}"), r" (\1)"),
    (re.compile(r"~?\\(?:cite[tp]?|(?:eq|page|auto)?ref)\*?(?:\[[^\[\]\n]*\])*\{([^{}\n]*)\}"), r" [\1]"),
    (re.compile(r"\\(?:LaTeX|TeX)\b(?:\{\})?"), "LaTeX"),
    (re.compile(r"\\l?dots\b(?:\{\})?"), "…"),
    (re.compile(r"(?<!\\)\\\\(?:\[[^\[\]\n]*\])?"), "\n"),
    # Of an unknown command, all arguments are shown, each separately.
    (re.compile(r"\}[ \t]*\{"), "} {"),
    (re.compile(r"\\[A-Za-z]+\*?(?:\[[^\[\]\n]*\])?(?:\{([^{}]*)\})?"), r"\1"),
    (re.compile(r"``|''"), '"'),
    (re.compile(r"(?<!\\)~"), " "),
    (re.compile(r"(?<!\\)[{}]"), ""),
    (re.compile(r"\\([%&$#_{}])"), r"\1"),
)
# In a URL, the percent sign encodes a character.
_TEX_COMMENT = re.compile(r"(?<!\\)%(?![0-9A-F]{2})[^\n]*")
_TEX_FORMULA = re.compile(
    r"(\$\$.*?\$\$|(?<!\\)\$(?:[^$\n]|\n(?![ \t]*\n))*(?<!\\)\$"
    r"|\\\[(?:(?!\\\[).)*?\\\]|\\\((?:(?!\\\().)*?\\\))",
    re.DOTALL,
)


def tex_markdown(text: str) -> str:
    """Return LaTeX as Markdown: the document body, with the title, authors and contents stated before it."""
    kept: list[str] = []

    def keep(shown: str, around: str = "\n\n") -> str:
        kept.append(shown)
        return f"{around}\ue000{len(kept) - 1}\ue001{around}"

    begin = "\\begin{document}"
    start = text.find(begin)
    head: list[str] = []
    if start >= 0 and (start < _TEX_USUAL_BEFORE or start * 5 < len(text) * 4):
        title = ""
        for match in _TEX_STATED.finditer(_TEX_COMMENT.sub("", text)):
            said = " ".join(_tex_words(match[2] or match[3]).split())
            if match[1] == "title":
                title = title or said
            elif match.start() < start:
                head.append(said)
        head = [*([f"# {title}"] if title else []), *head]
        text = text[start + len(begin) :]
    text = _TEX_CODE.sub(lambda match: keep(fence(match[2])), text)
    text = _TEX_VERBATIM.sub(lambda match: keep(f"`{match[2]}`", ""), text)
    text = _TEX_EQUATION.sub(
        lambda match: keep(f"$$\n{_TEX_LABEL.sub('', _TEX_COMMENT.sub('', match[3])).strip()}\n$$"), text
    )
    text = _TEX_TABLE.sub(lambda match: keep(_tex_table(match[2])), text)
    text = _TEX_TITLE.sub(lambda match: f"{'#' * (_TEX_LEVELS[match[1]])} {match[2]}", text)
    text = re.sub("\ue000(\\d+)\ue001", lambda match: kept[int(match[1])], _tex_words(text))
    return re.sub(r"\n{3,}", "\n\n", "\n\n".join((*head, text))).strip() + "\n"


def _tex_words(text: str) -> str:
    """Return a text without commands; formulas stay as written."""
    parts = _TEX_FORMULA.split(_TEX_DROPPED.sub("", _TEX_COMMENT.sub("", text)))
    for place in range(0, len(parts), 2):
        for pattern, shown in _TEX_WORDS:
            parts[place] = pattern.sub(shown, parts[place])
    return "".join(parts)


def _tex_table(inside: str) -> str:
    body = re.sub(r"^(?:\[[^\]]*\]|\{(?:[^{}]|\{[^{}]*\})*\})+", "", inside.lstrip())
    rows = [re.split(r"(?<!\\)&", row) for row in re.split(r"\\\\|\\tabularnewline", body)]
    return markdown_table([[" ".join(_tex_words(cell).split()) for cell in row] for row in rows])


# Characters by name; those that would be taken for markup use placeholders until the end.
_POD_LETTERS = {"lt": "\ue000", "gt": "\ue001", "verbar": "|", "sol": "/", "amp": "&", "quot": '"'}
_POD_COMMAND = re.compile(r"=([a-zA-Z]\w*)(?!\S)")
_POD_LETTER = re.compile(r"E<(\w{1,10})>")
_POD_WORDS = re.compile(
    r"(?P<kind>[BCFILSXZ])(?:(?P<open><{2,})\s+(?P<inner>.{0,2000}?)\s+>{2,}|<(?P<one>[^<>]*)>)", re.DOTALL
)


def pod_markdown(text: str) -> str | None:
    """Return POD, the markup of Perl's manuals, as Markdown; None if a text has no POD command.

    In a file of program text only the POD is read.
    """
    blocks: list[str] = []
    # Depth of nested lists, text of the last opened item, and the kind of block being skipped.
    depth, item, left_out, is_pod = 0, "", "", False
    for paragraph in re.split(r"\n(?:[ \t]*\n)+", text.strip("\n")):
        begins = _POD_COMMAND.match(paragraph)
        command, said = (begins[1], paragraph[begins.end() :].strip()) if begins else ("", paragraph)
        if item and (command in {"over", "back", "cut"} or command.startswith("head")):
            # The item has no text but its own.
            blocks, item = [*blocks, item], ""
        if left_out or command in {"begin", "for", "encoding", "end"}:
            left_out = "" if command == "end" else said.split()[0] if command == "begin" and said else left_out
            continue
        if command or paragraph[:1] in {" ", "\t"}:
            # An item without an explanation.
            blocks += [item] if item else []
            item = ""
        if command == "cut":
            is_pod = False
        elif match := re.fullmatch(r"head([1-6])", command):
            is_pod, depth = True, 0
            blocks.append(f"{'#' * int(match[1])} {_pod_words(said)}")
        elif command in {"over", "back"}:
            depth, is_pod = min(_MOST_DEPTH, max(0, depth + (1 if command == "over" else -1))), True
        elif command == "item":
            is_pod = True
            words = _pod_words(said)
            is_mark = re.fullmatch(r"[*o-]?|\d+[.)]?", words) is not None
            if not is_mark and (mark := re.match(r"(?:[*-]|\d+[.)]) ", words)):
                blocks.append(f"{'  ' * (depth - 1)}- {words[mark.end() :]}")
            else:
                item = "  " * (depth - 1) + ("- " if is_mark else f"- `{words.replace('`', '')}`")
        elif command:
            is_pod = True
        elif is_pod and paragraph[:1] in {" ", "\t"}:
            is_joined = bool(blocks) and blocks[-1].endswith("\n```")
            code = textwrap.dedent(paragraph)
            blocks[-1:] = [f"{blocks[-1][:-4]}\n\n{code}\n```"] if is_joined else [*blocks[-1:], fence(code)]
        elif is_pod and paragraph.strip():
            words = _pod_words(paragraph)
            joint = "" if item.endswith("- ") else ": "
            blocks.append(f"{item}{joint}{words}" if item else "  " * depth + words)
            item = ""
    if blocks[:1] == ["# NAME"] and len(blocks) > 1 and " - " in blocks[1]:
        blocks[:2] = [f"# {blocks[1]}"]
    return "\n\n".join((*blocks, *([item] if item else []))) + "\n" if blocks else None


def _pod_words(text: str) -> str:
    """Return a paragraph on one line, with formatting codes resolved from the inside out."""

    def shown(match: re.Match[str]) -> str:
        kind, said = match["kind"], " ".join((match["inner"] if match["open"] else match["one"]).split())
        if kind == "C" and said and "`" not in said:
            # Placeholders keep code from being read as formatting codes.
            return f"`{said}`".replace("<", "\ue000").replace(">", "\ue001")
        if kind == "L":
            return said.partition("|")[0].strip('/"') if "|" in said else said.replace("/", " > ").strip("> ")
        return "" if kind in "XZ" else said

    def letter(match: re.Match[str]) -> str:
        name = match[1]
        found = _POD_LETTERS.get(name) or unescape(f"&{'#' + name.lstrip('0') if name[0].isdigit() else name};")
        return name if len(found) > len(name) else found

    text = _POD_LETTER.sub(letter, " ".join(text.split()))
    for _ in range(_MOST_DEPTH):
        text, count = _POD_WORDS.subn(shown, text)
        if not count:
            break
    return " ".join(text.replace("\ue000", "<").replace("\ue001", ">").split())


MARKUPS: Mapping[str, Callable[[str], str | None]] = {
    ".rst": rst_markdown,
    ".adoc": adoc_markdown,
    ".org": org_markdown,
    ".tex": tex_markdown,
    ".mediawiki": wiki_markdown,
    ".pod": pod_markdown,
    **dict.fromkeys((".info", *(f".info-{number}" for number in range(1, 10))), info_markdown),
    ".srt": transcript_markdown,
    ".vtt": transcript_markdown,
}
