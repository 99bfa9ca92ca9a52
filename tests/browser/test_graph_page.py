from __future__ import annotations

import os
from pathlib import Path

from heliograph.analysis.graph_page import draw_neighbourhood, draw_retrieval, to_html
from heliograph.query.models import QueryParam
from heliograph.sync import Heliograph
from heliograph.testing.fakes import FakeEmbeddingModel

from ..unit.ingest.world import SpelledExtractor
from .browser import Browser

PICTURES = os.environ.get("HELIOGRAPH_TEST_PICTURES")
EVIL = "</script><script>document.title='taken'</script><img src=x onerror=document.title='taken'>"
TEXT = f"Ann (person): {EVIL}\nBob (person): writes.\nAnn -> Bob [leads] 1.0: Ann leads Bob.\nBob -> Cy [in] 3.0: home."


def written(folder: Path) -> tuple[Path, Path]:
    with Heliograph(folder / "kb", embedding=FakeEmbeddingModel(16), extractor=SpelledExtractor()) as kb:
        kb.insert([TEXT], sources=["<b>team.md"])
        found = kb.retrieve(f"Who is {EVIL}?", QueryParam("mix", ll_keywords=("Ann",), hl_keywords=("leads",)))
        result, around = folder / "result.html", folder / "around.html"
        result.write_text(to_html(draw_retrieval(found)), "utf-8")
        around.write_text(to_html(draw_neighbourhood(kb.neighbours("Bob"))), "utf-8")
    return result, around


def test_result_is_drawn_from_a_file_and_shows_text_as_text(browser: Browser, tmp_path: Path) -> None:
    result, _ = written(tmp_path)
    browser.open(result.as_uri())
    assert browser.script("return document.title") != "taken"
    assert EVIL in browser.find("h1").text
    assert len(browser.all("#graph circle")) == 3
    assert len(browser.all("#graph line")) == 2
    browser.wait_text("#detail", "<b>team.md")
    browser.write("#find", "Ann\n")
    browser.wait_text("#detail h2", "Ann")
    browser.wait_text("#detail", EVIL)
    browser.button("Bob").click()
    browser.wait_text("#detail", "leads")
    assert browser.all("main img, main script") == []
    assert browser.script("return performance.getEntriesByType('resource').length") == 0
    assert browser.errors() == []
    if PICTURES:
        browser.screenshot(Path(PICTURES) / "graph-result.png")


def test_neighbourhood_is_drawn_with_its_start_marked(browser: Browser, tmp_path: Path) -> None:
    _, around = written(tmp_path)
    browser.open(around.as_uri())
    assert browser.find("h1").text == "Bob"
    assert len(browser.all("#graph circle.start")) == 1
    before = browser.script("return document.getElementById('graph').getAttribute('viewBox')")
    browser.script("document.getElementById('graph').dispatchEvent(new WheelEvent('wheel', {deltaY: 1}))")
    assert browser.script("return document.getElementById('graph').getAttribute('viewBox')") != before
    browser.button("Fit").click()
    assert browser.script("return document.getElementById('graph').getAttribute('viewBox')") == before
    assert browser.errors() == []
