"""Reads the sources of manual pages (roff with the macros `man` or `mdoc`) as Markdown.

Sections become headings, paragraphs single lines, a term and its explanation one list item ("- `-f`: Flush the
queue."), and examples are fenced. Requests for a printer (fonts, sizes, indents) are left out; of conditions the branch
for a terminal is read. `heliograph.documents.terminal_text` reads the output of `man`.

Supported macros are those of man(7), mdoc(7) and, for tables, tbl(1); a page's own macros are not expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from unicodedata import normalize

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.encoding import decode_text
from heliograph.documents.markdown import clean_text, fence, markdown_table
from heliograph.errors import IngestError

# Characters by their names in roff.
_NAMED = r"""
aq ' dq " bu • em — en – hy - mi - lq “ rq ” oq ‘ cq ’ co © rg ® tm ™ mu × di ÷ -> → <- ← ha ^ ti ~ ga ` de ° +-
± <= ≤ >= ≥ != ≠ rs \ sl / ba | br | ss ß ae æ AE Æ oe œ OE Œ Po £ Eu € ct ¢ at @ sh # Do $ lB [ rB ] lC { rC }
la ⟨ ra ⟩ Fo « Fc » sc § 12 ½ 14 ¼ 34 ¾ S2 ² S3 ³ OK ✓ no ¬ if ∞ *m μ
"""
_CHARACTERS: dict[str, str] = dict(zip(_NAMED.split()[::2], _NAMED.split()[1::2], strict=True))
# Names that put a mark over a letter: \(:a is ä.
_MARKS_OVER = {":": "\u0308", "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", ",": "\u0327", "o": "\u030a"}
_STRINGS: dict[str, str] = {
    "lq": "“",
    "rq": "”",
    "Aq": "'",
    "R": "®",
    "Tm": "™",
    "--": "—",
    "PI": "π",
    **dict.fromkeys(('L"', 'R"', "C`", "C'"), '"'),
}
_ESCAPE = re.compile(
    r"""\\(?:
        "(?P<comment>.*)
      | \((?P<two>..) | \[(?P<long>[^\]\n]{0,80})\]
      | \*(?:\((?P<string2>..)|\[(?P<string>[^\]\n]{0,80})\]|(?P<string1>.))
      | [fFgkMmnVY](?:\(..|\[[^\]\n]{0,80}\]|[-+]?.) | s(?:[-+]?\d{1,2}|[-+]?\(..|[-+]?\[[^\]]{0,80}\]|'[^']*')
      | [bDhHlLNoRSvwxXZAB]'[^'\n]*'
      | (?P<one>.)
    )""",
    re.VERBOSE,
)
_ONE = {"e": "\\", "\\": "\\", "-": "-", " ": " ", "~": " ", "0": " ", "t": " ", "'": "'", "`": "`", ".": "."}
_COMMENT = re.compile(r'\\".*')
_REQUEST = re.compile(r"[.'][ \t]*(?P<name>[^\s\\\"]{1,12}|\\[{}\"])[ \t]*(?P<rest>.*)")
_BEGINS = re.compile(r"\.(?:TH|Dd|Dt|so|SH|Sh)\b")
# Comments, requests in lower case, and the definitions that programs put first.
_BEFORE = re.compile(r"\s*$|[.']\s*(?:\\\"|$|[a-z]{2}\b|\\})")
_MOST_BEFORE, _SEARCHED = 400, 40_000
_CONDITION = re.compile(r"(?P<not>!?)(?:'(?P<one>[^']*)'(?P<other>[^']*)'|(?P<sign>\S+?)(?=\s|\\\{|$))\s*(?P<rest>.*)")
_FONTS = frozenset({"B", "I", "SM", "SB", "R"})
_ALTERNATING = frozenset({"BR", "BI", "IR", "IB", "RB", "RI"})
_PARAGRAPHS = frozenset({"PP", "LP", "P", "HP", "sp", "Pp", "bp", "ti"})
_CODE_STARTS, _CODE_ENDS = frozenset({"nf", "EX", "Vb", "CS"}), frozenset({"fi", "EE", "Ve", "CE"})
_DEFINITIONS = frozenset({"de", "de1", "am", "am1", "ig"})
_BULLETS = frozenset({"•", "*", "-", "o", "–", "—", "·", "+"})
_BULLET_AT_START = re.compile("^[•·] +")
_LONGEST_TERM, _NO_TERM_ENDS = 120, frozenset(".,:;!?。，：；！？")
# Deeper nesting is only made to break readers.
_MOST_DEPTH = 20
_NUMBERED = re.compile(r"[(\[]?(?:\d{1,3}|[a-zA-Z])[.):\]]\)?")
# Macros of mdoc that enclose the rest of their line, and those that open or close an enclosure over several lines.
_AROUND = {"Op": "[]", "Dq": "“”", "Qq": '""', "Sq": "‘’", "Ql": "‘’", "Pq": "()", "Aq": "<>", "Bq": "[]", "Brq": "{}"}
_OVER_LINES = "Oo Oc Po Pc Ao Ac Bo Bc Bro Brc Do Dc Qo Qc So Sc"
_OPEN_OR_CLOSE: dict[str, str] = dict(zip(_OVER_LINES.split(), '[]()<>[]{}“”""‘’', strict=True))
# Macros of mdoc that only state the kind of the following word.
_KINDS = """Ad An Ar At Bsx Bx Cd Cm Dv Em Er Ev Fa Fc Fn Fo Fr Ft Fx Ic In Li Lk Lb Ms Mt No Nx Ox Pa Sx Sy Tn Ux Va Vt
    Xo Xc Ta St Rv Ex Bf Ef"""
_PLAIN = frozenset(_KINDS.split())
# A line break between Chinese or Japanese characters is no blank.
_CJK_GAP = re.compile("(?<=[\u3001-\u30ff\u3400-\u9fff\uff00-\uff60]) (?=[\u3001-\u30ff\u3400-\u9fff\uff00-\uff60])")
# Subsections of the manual, for programs with many pages: "open.3pm", "socket.3tcl"; of C, "time_t.3type".
_PARTS = (
    "",
    "const",
    "erl",
    "head",
    "ncurses",
    "p",
    "perl",
    "pm",
    "posix",
    "readline",
    "ssl",
    "tcl",
    "tk",
    "type",
    "x",
)
_PUNCTUATION = frozenset({".", ",", ";", ":", "?", "!", ")", "]", "(", "["})
_MACROS = _PLAIN | _AROUND.keys() | _OPEN_OR_CLOSE.keys() | {"Ns", "Fl", "Xr", "Nm", "Dl", "D1"}


class ManPageLoader(Loader):
    """Sources of manual pages."""

    suffixes = frozenset(
        {f".{number}{part}" for number in range(1, 10) for part in _PARTS} | {".man", ".mdoc", ".roff"}
    )
    mime_types = frozenset({"text/troff", "application/x-troff-man", "text/x-troff"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        text = clean_text(decode_text(raw.data, raw.name, raw.charset))
        if not is_man_source(text):
            # "notes.1" may be any text.
            return LoadedDocument(raw.name, "", text)
        try:
            page = _Page(text)
        except RecursionError as error:
            raise IngestError(f"{raw.name!r} nests too deeply; flatten it") from error
        return LoadedDocument(raw.name, page.title, "\n\n".join(page.blocks) + "\n")


def is_man_source(text: str) -> bool:
    """Return whether a text begins like the source of a manual page."""
    is_defining = False
    for line in text[:_SEARCHED].split("\n")[:_MOST_BEFORE]:
        if _BEGINS.match(line):
            return True
        if line.startswith((".de", ".ig", ".ie", ".if")):
            is_defining = True
        elif not is_defining and not _BEFORE.match(line):
            return False
    return False


class _Page:
    """Reads a page line by line into blocks of Markdown."""

    def __init__(self, text: str) -> None:
        self.title = ""
        self.blocks: list[str] = []
        self._name = ""
        self._strings = dict(_STRINGS)
        self._words: list[str] = []
        self._code: list[str] | None = None
        # The start of the current list item; None outside of one.
        self._term: list[str] | None = None
        # Whether the term stands above its explanation, as DocBook and Asciidoctor write definition lists.
        self._hangs = False
        # Per open indent or list: its kind, and whether it is nested in an item of another.
        self._lists: list[tuple[str, bool]] = []
        self._wants = ""
        # Target of the link whose words are being read.
        self._link = ""
        self._took_branch = True
        self._in_synopsis = False
        self._lines = iter(self._joined(text))
        for line in self._lines:
            self._read(line)
        self._end_code()
        self._end_block()
        self.blocks = [block for block in self.blocks if block.strip()]

    @staticmethod
    def _joined(text: str) -> Iterator[str]:
        """Yield lines, joined where one ends in a backslash."""
        joined = ""
        for line in text.split("\n"):
            if line.endswith("\\") and not line.endswith("\\\\") and len(joined) < 100_000:
                joined += line[:-1]
            else:
                yield joined + line
                joined = ""
        if joined:
            yield joined

    def _read(self, line: str) -> None:
        request = _REQUEST.fullmatch(line) if line[:1] in {".", "'"} else None
        if request is None and line[:1] != ".":
            self._say(self._plain(line), is_blank=not line.strip())
        elif request is not None:
            self._obey(request["name"], request["rest"])

    def _obey(self, name: str, rest: str) -> None:
        if name in _DEFINITIONS:
            # A macro's name and, if another than `..`, what ends it.
            words = _COMMENT.sub("", rest).split()
            given = words[:1] if name == "ig" else words[1:2]
            end = f".{given[0]}" if given else ".."
            next((line for line in self._lines if line.rstrip() == end), None)
        elif name in {"if", "ie", "el", "while"}:
            self._choose(name, rest)
        elif name in {"ds", "as"}:
            key, _, value = rest.partition(" ")
            self._strings.setdefault(key, self._plain(value.lstrip().removeprefix('"')))
        elif name in _CODE_STARTS or (name == "Bd" and ("-literal" in rest or "-unfilled" in rest)):
            self._end_block()
            self._code = [] if self._code is None else self._code
        elif name in _CODE_ENDS or name == "Ed":
            self._end_code()
        elif name == "TS":
            self._table()
        elif name in _PARAGRAPHS or name == "Bd":
            self._say("", is_blank=True)
        elif name == "br" and self._code is None and self._words:
            self._words.append("\n")
        elif name in {"SH", "SS", "Sh", "Ss"}:
            self._end_code()
            self._end_block()
            self._lists = []
            self._wants = "## " if name.lower() == "sh" else "### "
            if words := self._arguments(rest):
                self._say(self._inline(words) if name in {"Sh", "Ss"} else " ".join(words))
        elif name in {"TH", "Dt"}:
            self._start(self._arguments(rest))
        elif name in {"TP", "TQ", "IP", "It", "AP"}:
            self._item(name, self._arguments(rest))
        elif name in {"RS", "Bl"}:
            self._indent(name, rest)
        elif name in {"RE", "El"}:
            self._end_block()
            del self._lists[-1:]
        else:
            self._say_macro(name, self._arguments(rest))

    def _say_macro(self, name: str, words: list[str]) -> None:
        if name in _FONTS:
            # Without arguments it applies to the next line.
            self._say(" ".join(words))
        elif name in _ALTERNATING:
            self._say("".join(words))
        elif name in {"UR", "MT"}:
            self._end_link()
            self._link = words[0] if words else ""
        elif name in {"UE", "ME"}:
            self._end_link(" ".join(words))
        elif name == "URL" and words:
            self._say(f"{' '.join(words[1:2])} <{words[0]}>{' '.join(words[2:])}")
        elif name in {"QW", "PQ"}:
            # Quotes of Tcl's manual.
            self._say(f"“{words[0]}”{''.join(words[1:])}" if words else "")
        elif name in {"SY", "OP"}:
            self._say(" ".join(words) if name == "SY" else f"[{' '.join(words)}]")
        elif name == "so":
            self._say(f"See {' '.join(words)}.")
        elif name == "Nd":
            self._say(f"— {self._inline(words)}")
        elif name == "Nm" and self._in_synopsis:
            self._end_block()
            self._say(self._inline([name, *words]))
        elif name in _OPEN_OR_CLOSE:
            # No blank between brackets and the words inside.
            mark = self._inline([name])
            self._say(f"{mark}\u2060{self._inline(words)}" if name[1] == "o" else f"\u2060{mark}{self._inline(words)}")
        elif name in {"Nm", "Fl", "Xr", "Dl", "D1"} or name in _AROUND or name in _PLAIN:
            self._say(self._inline([name, *words]))
        elif len(name) == 2 and name[0] == "%":
            self._say(f"{' '.join(words)},")

    def _start(self, words: list[str]) -> None:
        if words and not self.title:
            # Older pages have their name in capitals, whatever the program is called.
            name = words[0].lower() if words[0].isupper() else words[0]
            self.title = f"{name}({words[1]})" if len(words) > 1 else name
            self.blocks.append(f"# {self.title}")

    def _item(self, name: str, words: list[str]) -> None:
        if name == "TQ" and self._term is not None:
            self._term.append(",")
            self._wants = "term"
            return
        self._end_block()
        if name == "IP" and not words:
            # Another paragraph of the item before.
            return
        self._term = []
        if name == "TP":
            self._wants = "term"
        elif name in {"IP", "AP"}:
            # The second argument of `IP` is an indent; Tcl's `AP` gives an argument's type, name and direction.
            self._term.append(" ".join(words) if name == "AP" else words[0])
        elif words and not (self._lists and self._lists[-1][0].startswith(("-bullet", "-dash", "-hyphen", "-enum"))):
            self._term.append(self._inline(words))

    def _say(self, text: str, *, is_blank: bool = False) -> None:
        if self._code is not None:
            self._code.append(text)
        elif is_blank and not text:
            if not self._wants:
                self._end_block()
        elif self._wants == "term" and self._term is not None:
            self._term.append(text.strip())
            self._wants = ""
        elif self._wants:
            self.blocks.append(self._wants + " ".join(text.split()))
            self._in_synopsis = text.strip().upper() == "SYNOPSIS"
            self._wants = ""
        elif text.strip():
            self._words.append(text.strip())

    def _end_link(self, behind: str = "") -> None:
        """Append the target of the current link, then `behind`."""
        link, self._link = self._link, ""
        if link or behind:
            self._say(f"<{link}>{behind}" if link else behind)

    def _indent(self, name: str, rest: str) -> None:
        words = " ".join(self._words)
        is_term = 0 < len(words) <= _LONGEST_TERM and words[-1] not in _NO_TERM_ENDS
        if name == "RS" and rest.strip() == "4" and self._term is None and is_term:
            # The line above is the term for the indented text below.
            self._term, self._words, self._hangs = self._words, [], True
            self._lists.append((rest, True))
        else:
            is_inner = self._term is not None if name == "RS" else bool(self._lists)
            self._end_block()
            self._lists.append((rest, is_inner))
        del self._lists[:-_MOST_DEPTH]

    def _end_block(self) -> None:
        if self._link:
            self._words.append(f"<{self._link}>")
            self._link = ""
        lines = [_CJK_GAP.sub("", " ".join(line.split())) for line in " ".join(self._words).split("\n")]
        indent = "  " * sum(is_inner for _, is_inner in self._lists)
        if self._hangs:
            indent, self._hangs = indent[2:], False
        text = f"\n{indent}".join(filter(None, lines)).replace("\u2060 ", "").replace(" \u2060", "")
        text = text.replace("\u2060", "")
        self._words = []
        if self._term is None:
            self.blocks.append(indent + _BULLET_AT_START.sub("- ", text) if text else "")
            return
        term = " ".join(" ".join(self._term).replace(" ,", ",").split())
        mark = ""
        if term and term not in _BULLETS:
            mark = f"{term} " if _NUMBERED.fullmatch(term) else f"`{term}`: "
        if mark or text:
            self.blocks.append(f"{indent}- {mark}{text}" if text else f"{indent}- {mark}".rstrip(" :"))
        self._term = None

    def _end_code(self) -> None:
        if self._code is not None and any(line.strip() for line in self._code):
            self.blocks.append(fence("\n".join(self._code).strip("\n")))
        self._code = None

    def _table(self) -> None:
        """Read a table of tbl: options up to `;`, formats up to a line that ends in a dot, then rows."""
        self._end_block()
        separator, rows, in_formats, cell = "\t", list[list[str]](), True, list[str]()
        in_cell = False
        for line in self._lines:
            if line.startswith(".TE"):
                break
            if in_formats:
                if chosen := re.search(r"tab ?\((.)\)", line):
                    separator = chosen[1]
                in_formats = not line.rstrip().endswith(".")
            elif in_cell:
                if line.startswith("T}"):
                    rows[-1][-1] = " ".join(cell)
                    rows[-1] += [self._plain(part) for part in line[2:].split(separator)[1:]]
                    in_cell = rows[-1][-1] == "T{"
                    cell = []
                else:
                    request = _REQUEST.fullmatch(line) if line[:1] in {".", "'"} else None
                    words = self._arguments(request["rest"]) if request is not None else [self._plain(line)]
                    joint = "" if request is not None and request["name"] in _ALTERNATING else " "
                    cell.append(joint.join(words))
            elif line.startswith(".T&"):
                in_formats = True
            elif line.strip() in {"_", "="} or line.startswith((".", "'")):
                continue
            else:
                rows.append([self._plain(part) for part in line.split(separator)])
                in_cell = rows[-1][-1] == "T{"
        if in_cell:
            rows[-1][-1] = " ".join(cell)
        if table := markdown_table(rows):
            self.blocks.append(table)

    def _choose(self, name: str, rest: str) -> None:
        """Read the branch for a terminal; skip printer branches and conditions that cannot be known."""
        if name == "el":
            takes = not self._took_branch
        else:
            asked = _CONDITION.fullmatch(rest)
            if asked is None:
                return
            rest, is_equal = asked["rest"], asked["one"] is not None and asked["one"] == asked["other"]
            takes = (asked["sign"] in {"n", "1"} or is_equal) != bool(asked["not"])
        if name == "ie":
            self._took_branch = takes
        if not rest.startswith("\\{"):
            if takes and rest:
                self._read(rest)
            return
        rest, depth = rest[2:].lstrip(), 1
        while True:
            depth += rest.count("\\{") - rest.count("\\}")
            inner = rest.replace("\\}", "").strip()
            if takes and inner not in {"", "."}:
                self._read(inner)
            if depth <= 0 or (rest := next(self._lines, None)) is None:  # type: ignore[assignment]
                return

    def _plain(self, text: str) -> str:
        return _ESCAPE.sub(self._character, text)

    def _character(self, match: re.Match[str]) -> str:
        if (one := match["one"]) is not None:
            return _ONE.get(one, "")
        named = match["two"] or match["long"]
        if named is not None:
            if re.fullmatch(r"u[0-9A-F]{4,6}", named):
                return chr(min(int(named[1:], 16), 0x10FFFF))
            if named not in _CHARACTERS and len(named) == 2 and named[0] in _MARKS_OVER:
                return normalize("NFC", named[1] + _MARKS_OVER[named[0]])
            return _CHARACTERS.get(named, "")
        string = match["string2"] or match["string"] or match["string1"]
        return self._strings.get(string, "") if string else ""

    def _arguments(self, rest: str) -> list[str]:
        """Return the arguments of a request; a quoted one may have blanks."""
        rest = _COMMENT.sub("", rest)
        found = re.findall(r'"((?:[^"]|"")*)"?|((?:\\ |\S)+)', rest)
        return [self._plain((quoted or bare).replace('""', '"')) for quoted, bare in found]

    def _inline(self, words: Sequence[str]) -> str:
        """Return the text of a line of mdoc macros."""
        said, closing, joins, is_flag = "", "", False, False
        index = 0
        while index < len(words):
            word = words[index]
            index += 1
            piece = word
            is_macro = word in _MACROS
            is_flag = is_flag and not is_macro
            if word == "Ns":
                joins = True
                continue
            if word in _AROUND:
                piece, closing, joins_next = _AROUND[word][0], _AROUND[word][1] + closing, True
            elif word in _OPEN_OR_CLOSE:
                piece = _OPEN_OR_CLOSE[word]
                joins_next = piece in "[(<{“‘"
            elif word == "Fl":
                # Applies to each word up to the next macro: "Fl c , -check" is "-c, --check".
                is_flag = index < len(words) and words[index] not in _MACROS | _PUNCTUATION
                if is_flag:
                    continue
                piece, joins_next = "-", False
            elif is_flag and word not in _PUNCTUATION and word != "|":
                piece, joins_next = f"-{word}", False
            elif word == "Xr" and index < len(words):
                section = words[index + 1] if index + 1 < len(words) else ""
                is_section = section[:1].isdigit()
                piece, joins_next = words[index] + (f"({section})" if is_section else ""), False
                index += 1 + is_section
            elif word == "Nm":
                is_named = index < len(words) and words[index] not in _PUNCTUATION
                self._name = words[index] if is_named and not self._name else self._name
                piece, joins_next = ("" if is_named else self._name), False
            elif word in _PLAIN or word in {"Dl", "D1"}:
                continue
            else:
                joins_next = word in {"(", "["}
            no_space = joins or not said or piece in _PUNCTUATION - {"(", "["} or piece in {"]", ">", "}", "”", "’"}
            said += piece if no_space else f" {piece}"
            joins = joins_next
        # The punctuation at the end of a line goes after the closing bracket or quote.
        is_behind = bool(closing) and words[-1] in _PUNCTUATION and words[-2:-1] != [] and words[-2] not in _AROUND
        mark = words[-1] if is_behind else ""
        return " ".join((said.removesuffix(mark) + closing + mark).split())
