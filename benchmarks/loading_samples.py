"""Documents whose every word is known: this project's own pages, set as PDF, DOCX and HTML by libraries people use."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import docx
import pypdfium2
from markdown_it import MarkdownIt
from markdown_it.token import Token
from PIL import Image
from reportlab.lib import colors
from reportlab.lib.pagesizes import A4
from reportlab.lib.styles import getSampleStyleSheet
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    Flowable,
    Frame,
    ListFlowable,
    PageTemplate,
    Paragraph,
    Preformatted,
    Spacer,
    Table,
)

__all__ = ["Block", "make_docx", "make_html", "make_pdf", "make_scan", "read_blocks", "words_of"]

_ROOT = Path(__file__).parent.parent
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARGIN = 54
_GUTTER = 24


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a page: `heading`, `paragraph`, `item`, `code` or `table`, whose rows are lists of cells."""

    kind: str
    text: str = ""
    level: int = 0
    rows: tuple[tuple[str, ...], ...] = ()


def read_blocks() -> list[Block]:
    """Return the blocks of this project's pages, one page after the other."""
    names = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/cli.md")
    return [block for name in names for block in _blocks((_ROOT / name).read_text("utf-8"))]


def words_of(blocks: Sequence[Block]) -> str:
    """Return all words of blocks in order."""
    return "\n".join(" ".join(cell for row in block.rows for cell in row) or block.text for block in blocks)


def _blocks(markdown: str) -> Iterator[Block]:
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    position, in_item = 0, False
    while position < len(tokens):
        token = tokens[position]
        if token.type == "heading_open":
            yield Block("heading", _plain(tokens[position + 1]), int(token.tag[1]))
        elif token.type == "fence":
            yield Block("code", token.content.rstrip())
        elif token.type == "table_open":
            end = next(index for index in range(position, len(tokens)) if tokens[index].type == "table_close")
            yield Block("table", rows=tuple(_rows(tokens[position:end])))
            position = end
        elif token.type in ("list_item_open", "list_item_close"):
            in_item = token.type == "list_item_open"
        elif token.type == "paragraph_open":
            yield Block("item" if in_item else "paragraph", _plain(tokens[position + 1]))
        position += 1


def _rows(tokens: Sequence[Token]) -> Iterator[tuple[str, ...]]:
    cells: list[str] = []
    for token in tokens:
        if token.type == "inline":
            cells.append(_plain(token))
        elif token.type == "tr_close":
            yield tuple(cells)
            cells = []


def _plain(token: Token) -> str:
    return " ".join(_LINK.sub(r"\1", token.content).replace("**", "").replace("`", "").replace("*", "").split())


def make_html(blocks: Sequence[Block]) -> bytes:
    """Return a page of a site: the blocks amid navigation, a banner, an aside, shares and a footer."""
    links = "".join(f'<li><a href="/p{number}">Another page, number {number}</a></li>' for number in range(30))
    body: list[str] = []
    for block in blocks:
        if block.kind == "table":
            head, *rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in block.rows)
            cells = "".join(f"<tr>{row}</tr>" for row in rows)
            body.append(f"<table><thead><tr>{head.replace('td>', 'th>')}</tr></thead><tbody>{cells}</tbody></table>")
        elif block.kind == "code":
            body.append(f'<pre><code class="language-sh">{escape(block.text)}</code></pre>')
        else:
            tag = {"heading": f"h{block.level}", "paragraph": "p", "item": "li"}[block.kind]
            body.append(f"<{tag}>{escape(block.text)}</{tag}>")
    content = re.sub(r"((?:<li>.*?</li>\n?)+)", r"<ul>\1</ul>", "\n".join(body))
    return (
        "<!DOCTYPE html><html lang='en'><head><title>Pages | A site</title><script>var x = 1</script></head><body>"
        f"<header class='site-header'><a href='/'>A site</a><nav><ul>{links}</ul></nav></header>"
        "<div class='cookie-banner'>This site uses cookies to make them more. <button>Accept</button></div>"
        f"<div class='layout'><aside class='sidebar'><h3>On this site</h3><ul>{links}</ul></aside>"
        f"<div class='post'>{content}</div><div class='share'>Share this page with your friends</div>"
        f"<div class='related-posts'><h3>Read next</h3><ul>{links}</ul></div></div>"
        "<footer><p>Copyright of nobody in particular</p></footer></body></html>"
    ).encode()


def make_docx(blocks: Sequence[Block]) -> bytes:
    """Return the blocks as a Word document."""
    document = docx.Document()
    for block in blocks:
        if block.kind == "heading":
            document.add_heading(block.text, block.level)
        elif block.kind == "table":
            table = document.add_table(len(block.rows), len(block.rows[0]))
            for line, row in enumerate(block.rows):
                for column, cell in enumerate(row):
                    table.cell(line, column).text = cell
        else:
            document.add_paragraph(block.text, style="List Bullet" if block.kind == "item" else None)
    return _written(document.save)


def make_pdf(blocks: Sequence[Block], columns: int) -> bytes:
    """Return the blocks as pages of one or two columns with running heads and page numbers."""
    width = (A4[0] - 2 * _MARGIN - (columns - 1) * _GUTTER) / columns
    frames = [
        Frame(_MARGIN + index * (width + _GUTTER), _MARGIN, width, A4[1] - 2 * _MARGIN, 0, 0, 0, 0)
        for index in range(columns)
    ]

    def decorate(canvas, document) -> None:
        canvas.setFont("Helvetica", 8)
        canvas.drawString(_MARGIN, A4[1] - 36, "The pages of a project, collected")
        canvas.drawRightString(A4[0] - _MARGIN, 30, f"Page {document.page}")

    def save(buffer: io.BytesIO) -> None:
        template = BaseDocTemplate(buffer, pagesize=A4, title="Pages")
        template.addPageTemplates(PageTemplate(frames=frames, onPage=decorate))
        template.build([part for block in blocks for part in _flowables(block, width)])

    return _written(save)


def make_scan(pdf: bytes, tilt_degrees: float) -> bytes:
    """Return the pages of a PDF as a scanner gives them: gray pictures of 200 dots an inch, as JPEG, laid askew."""
    document = pypdfium2.PdfDocument(pdf)
    canvas = Canvas(buffer := io.BytesIO(), pagesize=A4)
    for page in document:
        seen = page.render(scale=200 / 72).to_pil().convert("L")
        packed = io.BytesIO()
        seen.rotate(tilt_degrees, fillcolor="white", resample=Image.Resampling.BICUBIC).save(packed, "JPEG", quality=60)
        canvas.drawImage(ImageReader(packed), 0, 0, *A4)
        canvas.showPage()
    document.close()
    canvas.save()
    return buffer.getvalue()


def _flowables(block: Block, width: float) -> list[Flowable]:
    styles = getSampleStyleSheet()
    if block.kind == "heading":
        return [Paragraph(escape(block.text), styles[f"Heading{min(block.level, 4)}"])]
    if block.kind == "code":
        return [Preformatted(block.text, styles["Code"], maxLineLength=int(width / 5.2)), Spacer(1, 8)]
    if block.kind == "table":
        share = width / len(block.rows[0])
        cells = [[Paragraph(escape(cell), styles["BodyText"]) for cell in row] for row in block.rows]
        return [Table(cells, colWidths=share, style=[("GRID", (0, 0), (-1, -1), 0.5, colors.grey)]), Spacer(1, 8)]
    text = Paragraph(escape(block.text), styles["BodyText"])
    return [ListFlowable([text], bulletType="bullet", start="•", leftIndent=12)] if block.kind == "item" else [text]


def _written(save) -> bytes:
    buffer = io.BytesIO()
    save(buffer)
    return buffer.getvalue()
