from __future__ import annotations

import pytest

from heliograph.documents.base import Limits
from heliograph.errors import IngestError

from .samples import load, zip_bytes

_NAMES = " ".join(
    f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for name in ("office", "text", "table", "style", "meta", "drawing", "presentation", "manifest")
)
_STYLES = """
<style:style style:name="P1" style:parent-style-name="Title"/>
<style:style style:name="P2" style:parent-style-name="Preformatted_20_Text"/>
<text:list-style style:name="L1"><text:list-level-style-number/></text:list-style>
<text:list-style style:name="L2"><text:list-level-style-bullet/></text:list-style>
"""
META = """<dc:title xmlns:dc="http://purl.org/dc/elements/1.1/">Gateway manual</dc:title>
<meta:initial-creator>Ada Noll</meta:initial-creator><meta:keyword>gateway</meta:keyword>
<meta:keyword>broker</meta:keyword>"""


def odt(body: str, **parts: str) -> bytes:
    content = (
        f"<office:document-content {_NAMES}><office:automatic-styles>{_STYLES}</office:automatic-styles>"
        f"<office:body><office:text>{body}</office:text></office:body></office:document-content>"
    )
    entries = {"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content}
    if "meta" in parts:
        entries["meta.xml"] = f"<office:document-meta {_NAMES}><office:meta>{META}</office:meta></office:document-meta>"
    return zip_bytes(entries | {name: text for name, text in parts.items() if name != "meta"})


def read(body: str) -> str:
    return load("manual.odt", odt(body)).text


def test_headings_lists_and_tables_come_in_their_order() -> None:
    text = read(
        '<text:p text:style-name="P1">Gateways</text:p><text:h text:outline-level="2">Install</text:h>'
        "<text:p>Plug <text:span>it</text:span><text:s/>in &lt;now&gt;.</text:p>"
        '<text:list text:style-name="L2"><text:list-item><text:p>Cable</text:p></text:list-item>'
        "<text:list-item><text:p>Antenna</text:p></text:list-item></text:list>"
        '<text:list text:style-name="L1"><text:list-item><text:p>Open</text:p></text:list-item>'
        "<text:list-item><text:p>Close</text:p></text:list-item></text:list>"
        "<table:table><table:table-header-rows><table:table-row><table:table-cell><text:p>Name</text:p>"
        "</table:table-cell><table:table-cell><text:p>Value</text:p></table:table-cell></table:table-row>"
        "</table:table-header-rows><table:table-row><table:table-cell><text:p>Port</text:p></table:table-cell>"
        '<table:table-cell table:number-columns-repeated="900000"/></table:table-row></table:table>'
        '<text:p text:style-name="P2">a = 1</text:p><text:section><text:p>望江钟由林秀英铸造。</text:p></text:section>'
    )
    blocks = text.strip().split("\n\n")
    assert blocks[:5] == ["# Gateways", "## Install", "Plug it in <now>.", "- Cable\n- Antenna", "1. Open\n2. Close"]
    assert blocks[5].startswith("| Name | Value |")
    assert "| Port |" in blocks[5]
    assert blocks[6:] == ["```\na = 1\n```", "望江钟由林秀英铸造。"]


def test_notes_stand_at_the_end_and_what_is_no_text_is_left_out() -> None:
    text = read(
        "<text:tracked-changes><text:p>Deleted.</text:p></text:tracked-changes>"
        "<text:table-of-content><text:p>Contents 1</text:p></text:table-of-content>"
        "<text:p>It is old<text:note><text:note-citation>1</text:note-citation><text:note-body>"
        "<text:p>Since 1923.</text:p></text:note-body></text:note>.<office:annotation><text:p>Really?</text:p>"
        "</office:annotation></text:p>"
        "<text:p><drawing:frame><drawing:text-box><text:p>In a box.</text:p></drawing:text-box></drawing:frame>"
        "</text:p>"
    )
    assert text.strip().split("\n\n") == ["It is old[1].", "In a box.", "[1] Since 1923."]


def test_what_it_says_of_itself_is_kept() -> None:
    document = load("manual.odt", odt("<text:p>Plug it in.</text:p>", meta=""))
    assert document.title == "Gateway manual"
    assert document.metadata["author"] == "Ada Noll"
    assert document.metadata["keywords"] == "gateway, broker"
    assert document.metadata["mime_type"] == "application/vnd.oasis.opendocument.text"


def test_it_is_told_by_its_bytes() -> None:
    assert load("notes.txt", odt("<text:p>Plug it in.</text:p>")).text == "Plug it in.\n"


def test_hostile_depth_is_read_as_plain_text() -> None:
    nested = "<text:section>" * 3000 + "<text:p>Deep.</text:p>" + "</text:section>" * 3000
    assert read(nested).strip() == "Deep."
    spans = "<text:p>" + "<text:span>" * 3000 + "Deep." + "</text:span>" * 3000 + "</text:p>"
    assert read(spans).strip() == "Deep."


def test_encrypted_one_is_refused() -> None:
    manifest = f"<manifest:manifest {_NAMES}><manifest:encryption-data/></manifest:manifest>"
    with pytest.raises(IngestError, match="encrypted"):
        load("manual.odt", odt("", **{"META-INF/manifest.xml": manifest}))


def test_entities_are_refused() -> None:
    data = zip_bytes(
        {
            "mimetype": "application/vnd.oasis.opendocument.text",
            "content.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>',
        }
    )
    with pytest.raises(IngestError, match="entities"):
        load("manual.odt", data)


def odp(*slides: str, **parts: str) -> bytes:
    pages = "".join(f"<drawing:page>{slide}</drawing:page>" for slide in slides)
    content = (
        f"<office:document-content {_NAMES}><office:automatic-styles>{_STYLES}</office:automatic-styles>"
        f"<office:body><office:presentation>{pages}</office:presentation></office:body></office:document-content>"
    )
    meta = f"<office:document-meta {_NAMES}><office:meta>{META}</office:meta></office:document-meta>"
    mime_type = "application/vnd.oasis.opendocument.presentation"
    return zip_bytes({"mimetype": mime_type, "content.xml": content, "meta.xml": meta} | parts)


def frame(role: str, inside: str) -> str:
    return (
        f'<drawing:frame presentation:class="{role}"><drawing:text-box>{inside}</drawing:text-box></drawing:frame>'
        if role
        else f"<drawing:frame>{inside}</drawing:frame>"
    )


def test_slides_are_sections_and_pages() -> None:
    document = load(
        "plan.odp",
        odp(
            frame("title", "<text:p>Plan<text:s/>for</text:p><text:p>望江钟</text:p>")
            + frame(
                "outline",
                "<text:list><text:list-item><text:p>One</text:p><text:list><text:list-item>"
                "<text:p>Deeper</text:p></text:list-item></text:list></text:list-item></text:list>",
            )
            + frame("date-time", "<text:p>2024</text:p>")
            + "<presentation:notes>"
            + frame("page-number", "<text:p>1</text:p>")
            + frame("notes", "<text:p>Say hello</text:p>")
            + "</presentation:notes>",
            "<drawing:g>"
            + frame(
                "",
                "<table:table><table:table-row><table:table-cell><text:p>c0</text:p>"
                "</table:table-cell><table:table-cell><text:p>c1</text:p></table:table-cell></table:table-row>"
                "<table:table-row><table:table-cell><text:p>c2</text:p></table:table-cell><table:table-cell>"
                "<text:p>c3</text:p></table:table-cell></table:table-row></table:table>",
            )
            + "</drawing:g>"
            "<drawing:custom-shape><text:p>In a shape.</text:p></drawing:custom-shape>",
            "",
        ),
    )
    assert document.text == (
        "## Plan for 望江钟\n\n- One\n  - Deeper\n\nNotes: Say hello\n\n"
        "## Slide 2\n\n| c0 | c1 |\n| --- | --- |\n| c2 | c3 |\n\nIn a shape.\n"
    )
    assert document.page_starts == (0, document.text.index("## Slide 2"), len(document.text))
    assert (document.title, document.metadata["author"], document.metadata["page_count"]) == (
        "Gateway manual",
        "Ada Noll",
        3,
    )


def test_presentation_is_told_by_its_bytes_and_held_to_its_limits() -> None:
    slide = frame("title", "<text:p>Plan</text:p>")
    assert load("notes.txt", odp(slide)).text == "## Plan\n"
    with pytest.raises(IngestError, match="2 slides, more than 1"):
        load("plan.odp", odp(slide, slide), Limits(max_pages=1))
    assert load("plan.odp", zip_bytes({"mimetype": "application/vnd.oasis.opendocument.presentation"})).text == ""
