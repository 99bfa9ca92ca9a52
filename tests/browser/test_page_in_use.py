"""What whoever uses the page for a while meets: long documents, edits, copies, tablets, graphs without an entity."""

from __future__ import annotations

import httpx

from heliograph.testing.fakes import FakeChatModel

from ..serving import ANSWER, Serve
from .browser import Browser
from .test_own_page import QUESTION, answered, ask, fill

# Lets the page read one chunk of a document at a time, so that two are more than it reads at once.
ONE_AT_A_TIME = """
(() => {
  const real = window.fetch;
  window.fetch = (at, how) => real(String(at).replace("chunk_limit=500", "chunk_limit=1"), how);
})();
"""
LONG = "\n\n".join(f"# Part {number}\n\n{'A sentence of some words. ' * 90}" for number in range(3))


def test_all_chunks_of_a_long_document_are_shown_and_led_to(browser: Browser, serve: Serve) -> None:
    address = serve()
    httpx.post(f"{address}/documents/text", json={"text": LONG, "file_source": "long.md"}).raise_for_status()

    def chunks() -> list[dict[str, object]]:
        listed = httpx.get(f"{address}/documents", params={"source_prefix": "long.md"}).json()["documents"]
        return httpx.get(f"{address}/documents/{listed[0]['id']}").json()["chunks"]

    *_, last = browser.wait(chunks, "chunks")
    script = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": ONE_AT_A_TIME})
    try:
        browser.open(f"{address}/page/#/documents")
        browser.find("//a[normalize-space()='long.md']").click()
        browser.find("//*[@role='tab'][contains(., 'Chunks')]").click()
        assert len(browser.all("#document .card")) == 1
        browser.button("Show more").click()
        browser.wait(lambda: len(browser.all("#document .card")) == 2 or None, "the second chunk")
        place = browser.script("return location.hash")
        browser.open("about:blank")
        browser.open(f"{address}/page/{place}/{last['start']}")
        browser.wait_text("#document mark", "A sentence of some words.")
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_document_that_was_edited_is_shown_anew_once_it_is_read(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#/documents")
    browser.find("//a[normalize-space()='two.md']").click()
    browser.button("Edit the text").click()
    fill(browser, text="Zoe (person): sings.")
    browser.wait_text(".toast", "Saved; the text is being read.")
    browser.wait_text("#document header", "ready")
    browser.find("//*[@role='tab'][contains(., 'Entities 1')]").click()
    browser.wait_text("#document table", "Zoe")
    assert browser.errors() == []


def test_graph_of_documents_without_an_entity_does_not_call_the_workspace_empty(browser: Browser, serve: Serve) -> None:
    address = serve()
    there = {"X-Heliograph-Workspace": "plain"}
    httpx.post(f"{address}/workspaces", json={"name": "plain"}).raise_for_status()
    text = {"text": "Nothing has a name here.", "file_source": "plain.md"}
    httpx.post(f"{address}/documents/text", json=text, headers=there).raise_for_status()
    browser.open(f"{address}/page/#/graph")
    browser.choose("#workspace", "plain")
    browser.wait_text("#graph", "There is nothing to draw yet.")
    assert not browser.all(".first-run")


def test_prompt_is_copied_and_a_menu_closed_by_escape(browser: Browser, serve: Serve) -> None:
    browser.open(serve(FakeChatModel(ANSWER)))
    ask(browser)
    answered(browser)
    browser.find("//button[contains(., 'How it was found')]").click()
    browser.find("//*[@role='tab'][normalize-space()='Prompt']").click()
    # As where the page is not served securely.
    browser.script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    browser.find(".panel .panel-body .button").click()
    browser.wait_text(".toast", "Copied.")
    browser.find(".panel .panel-head [aria-label=Close]").click()
    more = browser.button(f"More: {QUESTION}")
    more.click()
    browser.find(".talk .items")
    browser.driver.switch_to.active_element.send_keys("\ue00c")
    browser.wait(lambda: not browser.all(".talk .items") or None, "the end of the menu")


def test_what_opens_on_a_tablet_leaves_what_it_is_about_in_sight(browser: Browser, serve: Serve) -> None:
    browser.size(820, 1180)
    browser.open(serve(FakeChatModel(ANSWER)))
    ask(browser)
    answered(browser)
    browser.find(".answer .cite").click()
    browser.wait_text(".panel", "Ann leads Bob")
    place = "return document.querySelector(arguments[0]).getBoundingClientRect().toJSON()"
    main, answer, panel = (browser.script(place, name) for name in ("main", ".answer", ".panel"))
    assert main["bottom"] <= panel["top"] + 1
    assert answer["top"] < panel["top"]
    assert panel["width"] == 820
