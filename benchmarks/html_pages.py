"""How much prose of real web sites is kept and how much of their furniture stays, against other extractors.

The sites are manuals as Debian packages them, made by a dozen generators. What is prose is stated here per generator
by its own template, independently of the loader: a text belongs to what its nearest ancestor that is named in the
site's row says. Content is the template's block of content; furniture is everything outside of it and the marks within
(permalinks, links to sources, menus). Lists of contents that repeat the headings are neither. Hidden elements, scripts
and controls count for nothing.

Texts are compared as sequences of tokens (words; in Chinese and Japanese characters), by longest common subsequences
(LCS): *prose kept* is LCS(prose, output) / prose; *furniture* is what of the output only the page's furniture
explains, (LCS(page, output) - LCS(page without furniture, output)) / output. Both are summed over the pages of a site.
Every site gives the same number of pages, evenly spaced by name, none of more than 500 KB; "all sites" is the mean over
sites, the largest of which would outweigh the others. Time is CPU time per page in this process.

The argument is the folder below which the sites lie as their packages install them (default `/usr/share`); sites and
extractors that are not there are left out. `pip install trafilatura readability-lxml resiliparse html-to-markdown
markitdown` installs what is compared; to have the sites without installing them, `apt-get download PACKAGE` and
`dpkg -x PACKAGE.deb FOLDER`, and give `FOLDER/usr/share`.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import Any

from rapidfuzz.distance import LCSseq
from selectolax.lexbor import LexborHTMLParser

from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph.documents.base import Limits, RawDocument
from heliograph.documents.registry import load_document

__all__ = ["TITLE", "run"]

TITLE = "Prose and furniture of real web sites"

_PAGES = 60
# Whole books in one page would outweigh all others, and take minutes.
_MOST_BYTES = 500_000
_TOKEN = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_MARKUP = re.compile(r"^```.*$|[`*\\]|\]\([^)\s]*(?: \"[^\"]*\")?\)", re.MULTILINE)
_UNSEEN = "script, style, noscript, template, select, option, button, input, textarea, svg, title, rt, rp"
_WITHIN_WORDS = frozenset({
    "a", "abbr", "acronym", "b", "big", "cite", "code", "dfn", "em", "font", "i", "kbd", "mark", "q", "s", "samp",
    "small", "span", "strong", "sub", "sup", "tt", "u", "var", "wbr",
})  # fmt: skip

Extract = Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Site:
    """Pages made from one template, and what is what in them, as CSS selectors.

    Attributes:
        name: What figures call it.
        pages: Pattern of its files below the folder of sites.
        content: The template's blocks of content.
        furniture: What is none within them.
        neither: What repeats headings.
    """

    name: str
    pages: str
    content: str
    furniture: str = "[data-none]"
    neither: str = "[data-none]"


_DOCBOOK = ("body", "div.navheader, div.navfooter, div.footer, a.id_link", "div.toc, .list-of-tables")
_SPHINX = (
    "div[role=main]",
    "a.headerlink, a.viewcode-link, .viewcode-link",
    "div.toctree-wrapper, div.contents, nav.contents",
)
_TEXINFO = (
    "body",
    "div.header, div.nav-panel, a.copiable-anchor, a.copiable-link, table.header",
    ".contents, .shortcontents, .section-toc, .mini-toc, table.menu, .Contents_element",
)
_ASCIIDOC = ("body", "#footer", "#toc")
_ASCIIDOC_CHUNKS = ("body", "div.navheader, div.navfooter, #footer, nav", "div.toc")
_MDBOOK = ("main", "nav", "[data-none]")
SITES = (
    Site(
        "Publican (zh)",
        "doc/debian-handbook/html/zh-CN/*.html",
        "body",
        "#banner, #title, ul.docnav",
        "div.toc",
    ),
    Site("Publican (en)", "doc/debian-handbook/html/en-US/*.html", "body", "#banner, #title, ul.docnav", "div.toc"),
    Site("Sphinx, Python", "doc/python3.11/html/**/*.html", *_SPHINX),
    Site("Sphinx, CMake", "doc/cmake-data/html/**/*.html", *_SPHINX),
    Site("Sphinx, policy", "doc/debian-policy/policy.html/*.html", *_SPHINX),
    Site("DocBook, PostgreSQL", "doc/postgresql-doc-15/html/*.html", *_DOCBOOK),
    Site("DocBook, GIMP (en)", "gimp/2.0/help/en/*.html", *_DOCBOOK),
    Site("DocBook, GIMP (zh)", "gimp/2.0/help/zh_CN/*.html", *_DOCBOOK),
    Site("DocBook, Debian reference (zh)", "debian-reference/*.zh-cn.html", *_DOCBOOK),
    Site("DocBook, installer (zh)", "doc/installation-guide-amd64/zh_CN/*.html", *_DOCBOOK),
    Site("DocBook, aptitude", "doc/aptitude/html/en/*.html", *_DOCBOOK),
    Site("gtk-doc", "gtk-doc/html/gtk3/*.html", "body", "table.navigation, div.footer", "div.toc, dl.toc"),
    Site("Apache (en)", "doc/apache2-doc/manual/en/**/*.html", "#page-content, #preamble",
         "#page-header, #path, .toplang, .bottomlang, #footer, div.top, #comments_section", "#quickview"),
    Site("Apache (zh)", "doc/apache2-doc/manual/zh-cn/**/*.html", "#page-content, #preamble",
         "#page-header, #path, .toplang, .bottomlang, #footer, div.top, #comments_section", "#quickview"),
    Site("AsciiDoc, Git", "doc/git-doc/**/*.html", *_ASCIIDOC),
    Site("SQLite", "doc/sqlite3/**/*.html", "body", "body > div.nosearch, body > p > small", ".fancy_toc"),
    Site("Texinfo, Octave", "doc/octave/octave.html/*.html", *_TEXINFO),
    Site("Texinfo, Bash", "doc/bash-doc/*.html", *_TEXINFO),
    Site("MkDocs", "doc/mkdocs/html/**/*.html", "div[role=main]", "a.headerlink", "div.toc"),
    Site("mdBook", "doc/rust-doc/html/book/*.html", *_MDBOOK),
    Site("rustdoc", "doc/rust-doc/html/std/**/*.html", "main",
         ".sub-container, .out-of-band, a.srclink, a.anchor, summary.hideme", ".since, .rightside, .notable-traits"),
    Site("Doxygen", "doc/doxygen/html/*.html", "div.headertitle, div.contents",
         "#top, .summary, #nav-path, address.footer", ".toc, .memSafe, span.permalink"),
    Site("Javadoc", "doc/openjdk-17-jre-headless/api/java.base/java/**/*.html", "main", "a.anchor-link",
         ".table-tabs, nav.toc, .block-list"),
    Site("LibreOffice (zh)", "libreoffice/help/zh-CN/text/**/*.html", "#DisplayArea", "[data-none]", "[data-none]"),
    Site("QDoc", "qt5/doc/qtcore/*.html", "div.content", "[data-none]", "div.toc, div.sidebar"),
    Site("Groovydoc", "doc/groovy/gapi/groovy/**/*.html", "body",
         ".topNav, .subNav, .bottomNav, .navList, .legalCopy"),
    Site("Node.js", "doc/nodejs/api/*.html", "#apicontent", "a.mark, .srclink, #gtoc, header, .picker", "#toc"),
    Site("AsciiDoc, KiCad (zh)", "doc/kicad/help/zh/*.html", *_ASCIIDOC),
    Site("DocBook, Wireshark", "doc/wireshark/wsug_html_chunked/*.html", *_ASCIIDOC_CHUNKS),
    Site("MkDocs, REST framework", "doc/python3-djangorestframework/html/**/*.html", "#main-content",
         "a.headerlink, .headerlink", "div.toc"),
    Site("DebianDoc", "doc/debian/FAQ/*.html", "body", "div.navheader, div.navfooter", "div.toc"),
    Site("Postfix", "doc/postfix/html/*.html", "body"),
    Site("Texinfo, zsh", "doc/zsh-common/html/*.html", *_TEXINFO),
    Site("LinuxDoc, Bird", "doc/bird-doc/*.html", "body", "body > a"),
    Site("Texinfo, R", "R/doc/manual/*.html", *_TEXINFO),
    Site("Ikiwiki", "doc/ikiwiki/html/**/*.html", "#content", "[data-none]", ".toc"),
    Site("Sphinx, fish", "doc/fish/**/*.html", *_SPHINX),
    Site("man2html, ncurses", "doc/ncurses-doc/html/**/*.html", "body", "address, div.nav", "div.TOC, .TOC"),
    Site("Doxygen, Xapian", "doc/xapian-doc/apidoc/html/*.html", "div.headertitle, div.contents",
         "#top, .summary, #nav-path, address.footer", ".toc, .memSafe, span.permalink"),
    Site("Erlang", "doc/erlang-doc/lib/stdlib-*/doc/html/*.html", "#content", ".footer, a.title-anchor", ".topbar"),
)  # fmt: skip


def run(options: Options) -> Findings:
    """Measure every extractor on every site that is there."""
    root = Path(options.arguments[0] if options.arguments else "/usr/share")
    extractors = {name: extract for name, extract in _EXTRACTORS.items() if _works(extract)}
    totals = {name: _Tally() for name in extractors}
    figures: list[Figure] = []
    for site in SITES:
        pages = _sample(sorted(root.glob(site.pages)), 6 if options.quick else _PAGES)
        if not pages:
            continue
        tallies = measure(site, pages, extractors)
        for name, tally in tallies.items():
            figures += tally.figures(f"{site.name}, {name}")
            totals[name].add_site(tally)
    for name, total in totals.items():
        bounds = (99.5, 1.0) if name == _OURS else (None, None)
        figures += total.figures(f"all sites, {name}", *bounds)
    return Findings(tuple(figures))


def measure(site: Site, pages: Sequence[Path], extractors: dict[str, Extract]) -> dict[str, _Tally]:
    """Return per extractor what it kept of a site's pages."""
    tallies = {name: _Tally() for name in extractors}
    for path in pages:
        html = path.read_text("utf-8", "replace")
        tokens = list(_labelled(html, site))
        prose = [token for token, label in tokens if label == "content"]
        if not prose:
            # What only leads elsewhere was made from another template.
            continue
        no_furniture = [token for token, label in tokens if label != "furniture"]
        everything = [token for token, _ in tokens]
        for name, extract in extractors.items():
            start = time.process_time()
            output = tokenize(_MARKUP.sub("", extract(html)))
            tallies[name].add(
                time.process_time() - start,
                kept=_common(prose, output),
                prose=len(prose),
                furniture=_common(everything, output) - _common(no_furniture, output),
                output=len(output),
            )
    return tallies


@dataclass(slots=True)
class _Tally:
    """Sums over pages, or means over sites, in which each counts the same."""

    seconds: float = 0.0
    pages: int = 0
    kept: float = 0
    prose: float = 0
    furniture: float = 0
    output: float = 0

    def add(self, seconds: float, *, kept: int, prose: int, furniture: int, output: int) -> None:
        self.seconds += seconds
        self.pages += 1
        self.kept += kept
        self.prose += prose
        self.furniture += furniture
        self.output += output

    def add_site(self, site: _Tally) -> None:
        self.seconds += site.seconds
        self.pages += site.pages
        self.kept += site.kept / max(1, site.prose)
        self.prose += 1
        self.furniture += site.furniture / max(1, site.output)
        self.output += 1

    def figures(self, label: str, least_kept: float | None = None, most_furniture: float | None = None) -> list[Figure]:
        return [
            Figure(f"{label}: prose kept", 100 * self.kept / max(1, self.prose), "%", at_least=least_kept),
            Figure(f"{label}: furniture", 100 * self.furniture / max(1, self.output), "%", at_most=most_furniture),
            Figure(f"{label}: time", 1000 * self.seconds / max(1, self.pages), "ms/page"),
        ]


def tokenize(text: str) -> list[str]:
    """Return the words of a text, in Chinese, Japanese and Korean its characters."""
    return _TOKEN.findall(text.casefold())


def _labelled(html: str, site: Site) -> Iterator[tuple[str, str]]:
    """Yield the tokens that a reader of a page sees, each with what it is."""
    page = LexborHTMLParser(html)
    if page.body is None:
        return
    for node in page.css(f"{_UNSEEN}, [hidden], [style*='display: none'], [style*='display:none']"):
        if node.tag != "body":
            node.decompose()
    labels: dict[int, str] = {}
    for label, selector in (("content", site.content), ("neither", site.neither), ("furniture", site.furniture)):
        labels.update(dict.fromkeys((node.mem_id for node in page.css(selector)), label))
    known: dict[int, str] = {}
    pieces: list[tuple[str, str]] = []
    for node in page.body.traverse(include_text=True):
        parent = node.parent
        label = known.get(parent.mem_id, "furniture") if parent is not None else "furniture"
        if node.is_text_node:
            pieces.append((node.text_content or "", label))
        elif node.is_element_node:
            known[node.mem_id] = labels.get(node.mem_id, label)
            if node.tag not in _WITHIN_WORDS:
                # A description of a picture is read by some and not by others.
                pieces.append((f" {node.attributes.get('alt') or ''} ", "neither"))
    text = "".join(piece for piece, _ in pieces).casefold()
    ends = list(accumulate(len(piece.casefold()) for piece, _ in pieces))
    for match in _TOKEN.finditer(text):
        yield match[0], pieces[bisect_right(ends, match.start())][1]


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    return LCSseq.similarity(one, other) if one and other else 0


def _sample(pages: Sequence[Path], count: int) -> list[Path]:
    pages = [page for page in pages if page.is_file() and page.stat().st_size <= _MOST_BYTES]
    step = max(1.0, len(pages) / count)
    return [pages[int(index * step)] for index in range(min(count, len(pages)))]


@cache
def _works(extract: Extract) -> bool:
    try:
        extract("<html><body><p>The gateway keeps every message until the broker has confirmed it.</p></body></html>")
    except ImportError:
        return False
    return True


def _heliograph(html: str) -> str:
    return load_document(RawDocument("page.html", html.encode()), Limits()).text


def _trafilatura(html: str) -> str:
    return import_module("trafilatura").extract(html, output_format="markdown", favor_recall=True) or ""


def _readability(html: str) -> str:
    summary = import_module("readability").Document(html).summary()
    body: Any = LexborHTMLParser(summary).body
    return body.text(separator=" ") if body is not None else ""


def _resiliparse(html: str) -> str:
    extract = import_module("resiliparse.extract.html2text").extract_plain_text
    return extract(html, main_content=True, alt_texts=False)


def _html_to_markdown(html: str) -> str:
    module = import_module("html_to_markdown")
    options = module.ConversionOptions(preprocessing=module.PreprocessingOptions(enabled=True, preset="aggressive"))
    result = module.convert(html, options)
    return result if isinstance(result, str) else str(getattr(result, "content", "") or "")


def _markitdown(html: str) -> str:
    return import_module("markitdown.converters").HtmlConverter().convert_string(html).markdown


_OURS = "heliograph"
_EXTRACTORS: dict[str, Extract] = {
    _OURS: _heliograph,
    "trafilatura": _trafilatura,
    "readability-lxml": _readability,
    "resiliparse": _resiliparse,
    "html-to-markdown": _html_to_markdown,
    "markitdown": _markitdown,
}
