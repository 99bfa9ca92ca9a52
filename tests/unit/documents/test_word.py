"""What stands in a Word file or on slides beside plain paragraphs: fields, formulas, shapes, charts, diagrams."""

from __future__ import annotations

import io
import zipfile

import docx
import pptx
import pytest
from docx.oxml import parse_xml
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE

from .samples import load, zip_bytes

_SPACES = " ".join(
    f'xmlns:{prefix}="{address}"'
    for prefix, address in {
        "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
        "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
        "r": "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
        "c": "http://schemas.openxmlformats.org/drawingml/2006/chart",
        "a": "http://schemas.openxmlformats.org/drawingml/2006/main",
        "dgm": "http://schemas.openxmlformats.org/drawingml/2006/diagram",
        "wps": "http://schemas.microsoft.com/office/word/2010/wordprocessingShape",
        "p": "http://schemas.openxmlformats.org/presentationml/2006/main",
    }.items()
)


def _run(text: str) -> str:
    return f'<w:r><w:t xml:space="preserve">{text}</w:t></w:r>'


def _docx(inside: str, **parts: str) -> bytes:
    """Return a document with one paragraph; what it holds is told as XML, parts by their ids."""
    document = docx.Document()
    document.element.body.insert(0, parse_xml(f"<w:p {_SPACES}>{inside}</w:p>"))
    buffer = io.BytesIO()
    document.save(buffer)
    with zipfile.ZipFile(buffer) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    links = "".join(f'<Relationship Id="{name}" Type="x" Target="{name}.xml"/>' for name in parts)
    rels = "word/_rels/document.xml.rels"
    entries[rels] = entries[rels].replace(b"</Relationships>", f"{links}</Relationships>".encode())
    return zip_bytes(entries | {f"word/{name}.xml": text for name, text in parts.items()})


@pytest.mark.parametrize(
    ("inside", "text"),
    [
        ("<w:r><w:t>Pump</w:t><w:cr/><w:t>Seal</w:t></w:r>", "Pump\nSeal\n"),
        (_run("Part ") + f'<w:fldSimple w:instr=" SEQ ">{_run("7")}</w:fldSimple>' + _run(" of 9"), "Part 7 of 9\n"),
        (f'<w:bdo w:val="rtl"><w:dir w:val="rtl">{_run("مضخة")}</w:dir></w:bdo>', "مضخة\n"),
        (f"<w:r><w:ruby><w:rt>{_run('かんじ')}</w:rt><w:rubyBase>{_run('漢字')}</w:rubyBase></w:ruby></w:r>", "漢字\n"),
    ],
)
def test_word_keeps_what_stands_in_fields_and_around_text(inside: str, text: str) -> None:
    assert load("a.docx", _docx(inside)).text == text


def test_formula_of_word_is_told_on_one_line() -> None:
    def part(kind: str, **parts: str) -> str:
        return f"<m:{kind}>{''.join(f'<m:{name}>{inside}</m:{name}>' for name, inside in parts.items())}</m:{kind}>"

    def text(said: str) -> str:
        return f"<m:r><m:t>{said}</m:t></m:r>"

    root = part("rad", deg="", e=part("sSup", e=text("p"), sup=text("2")) + text("-4q"))
    formula = text("x=") + part("f", num=text("-p+") + root, den=text("2"))
    document = load("a.docx", _docx(_run("So ") + f"<m:oMathPara><m:oMath>{formula}</m:oMath></m:oMathPara>"))
    assert document.text == "So x=(-p+√(p^2-4q))/2\n"


def test_text_in_a_shape_of_word_is_read_once() -> None:
    box = f"<wps:txbx><w:txbxContent><w:p>{_run('Wear gloves.')}</w:p></w:txbxContent></wps:txbx>"
    choice = f'<mc:Choice Requires="wps"><w:drawing>{box}</w:drawing></mc:Choice>'
    old = f"<w:pict><w:txbxContent><w:p>{_run('Wear gloves.')}</w:p></w:txbxContent></w:pict>"
    for fallback in ("", "<mc:Fallback/>", f"<mc:Fallback>{old}</mc:Fallback>"):
        shape = f"<w:r><mc:AlternateContent>{choice}{fallback}</mc:AlternateContent></w:r>"
        assert load("a.docx", _docx(_run("Before.") + shape)).text == "Before.\n\nWear gloves.\n"


def _values(kind: str, code: str, value: str) -> str:
    cache = f'<c:formatCode>{code}</c:formatCode><c:pt idx="0"><c:v>{value}</c:v></c:pt>'
    return f"<c:{kind}><c:numRef><c:numCache>{cache}</c:numCache></c:numRef></c:{kind}>"


_CHART = (
    f"<c:chartSpace {_SPACES}><c:chart><c:title><a:p><a:r><a:t>Leaks</a:t></a:r></a:p></c:title><c:ser>"
    + '<c:tx><c:strRef><c:strCache><c:pt idx="0"><c:v>Line 1</c:v></c:pt></c:strCache></c:strRef></c:tx>'
    + _values("cat", "d/m/yyyy", "45000")
    + _values("val", "General", "8.1999999999999993")
    + "</c:ser></c:chart></c:chartSpace>"
)
_SHAPES = "".join(
    f'<dgm:pt modelId="{key}"><dgm:t><a:p><a:r><a:t>{words}</a:t></a:r></a:p></dgm:t></dgm:pt>'
    for key, words in (("3", "Dry"), ("2", "Rinse"), ("1", "Wash"))
)
_DIAGRAM = (
    f'<dgm:dataModel {_SPACES}><dgm:ptLst><dgm:pt modelId="0" type="doc"/>{_SHAPES}</dgm:ptLst><dgm:cxnLst>'
    + '<dgm:cxn srcId="0" destId="3" srcOrd="1"/><dgm:cxn srcId="0" destId="1" srcOrd="0"/>'
    + '<dgm:cxn srcId="1" destId="2" srcOrd="0"/><dgm:cxn type="presOf" srcId="1" destId="3" srcOrd="0"/>'
    + "</dgm:cxnLst></dgm:dataModel>"
)


def _frame(inside: str, kind: str) -> str:
    uri = f"http://schemas.openxmlformats.org/drawingml/2006/{kind}"
    return f'<a:graphic><a:graphicData uri="{uri}">{inside}</a:graphicData></a:graphic>'


def test_charts_and_diagrams_of_word_are_read() -> None:
    chart = _frame('<c:chart r:id="leaks"/>', "chart")
    diagram = _frame('<dgm:relIds r:dm="steps"/>', "diagram")
    inside = f"<w:r><w:drawing>{chart}</w:drawing><w:drawing>{diagram}</w:drawing></w:r>"
    assert load("a.docx", _docx(_run("See:") + inside, leaks=_CHART, steps=_DIAGRAM)).text == (
        "See:\n\nLeaks\n\n|  | Line 1 |\n| --- | --- |\n| 2023-03-15 | 8.2 |\n\nWash\n\nRinse\n\nDry\n"
    )


def test_charts_and_diagrams_of_slides_are_read() -> None:
    presentation = pptx.Presentation()
    slide = presentation.slides.add_slide(presentation.slide_layouts[5])
    slide.shapes.title.text = "Leaks"
    data = CategoryChartData()
    data.categories = ["Mon", "Tue"]
    data.add_series("Line 1", (3, 4.5))
    slide.shapes.add_chart(XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, 9, 9, data)
    place = pptx.opc.packuri.PackURI("/ppt/diagrams/data1.xml")
    part = pptx.opc.package.Part(place, "application/xml", presentation.part.package, _DIAGRAM.encode())
    diagram = _frame(f'<dgm:relIds r:dm="{slide.part.relate_to(part, "diagramData")}"/>', "diagram")
    frame = f"<p:graphicFrame {_SPACES}>{diagram}</p:graphicFrame>"
    slide.shapes._spTree.append(pptx.oxml.parse_xml(frame))
    buffer = io.BytesIO()
    presentation.save(buffer)
    assert load("a.pptx", buffer.getvalue()).text == (
        "## Leaks\n\n|  | Line 1 |\n| --- | --- |\n| Mon | 3 |\n| Tue | 4.5 |\n\n- Wash\n  - Rinse\n- Dry\n"
    )
