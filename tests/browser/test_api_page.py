from __future__ import annotations

import json

from heliograph.testing.fakes import FakeChatModel

from ..serving import ANSWER, Serve
from .browser import Browser
from .test_own_page import picture


def opened(browser: Browser, address: str, operation: str) -> str:
    """Open one operation and return a selector of it."""
    browser.open("about:blank")
    browser.open(f"{address}/page/#/api/{operation}")
    node = f"#{operation}"
    browser.find(f"{node}[open] form")
    return node


def unfold(browser: Browser, node: str, text: str) -> None:
    browser.find(f'//*[@id="{node[1:]}"]//summary[starts-with(., "{text}")]').click()


def shown(browser: Browser, node: str, text: str) -> str:
    return browser.wait_text(f"{node} .result", text).text


def test_routes_are_listed_and_found(browser: Browser, serve: Serve) -> None:
    address = serve()
    browser.open(f"{address}/docs")
    browser.find("#query_query_post")
    assert browser.driver.current_url.startswith(f"{address}/page/#/api")
    paths = browser.script(
        "return fetch(new URL('../openapi.json', document.baseURI)).then((r) => r.json())"
        ".then((d) => Object.entries(d.paths))"
    )
    count = sum(len(methods) for _, methods in paths)
    assert len(browser.all(".route")) == count > 50
    browser.write("#find", "delete workspace")
    assert [node.get_attribute("id") for node in browser.all(".route") if node.is_displayed()] == [
        "delete_workspace_workspaces__name__delete"
    ]
    picture(browser, "docs-list")
    assert browser.errors() == []


def test_route_shows_parameters_fields_and_examples(browser: Browser, serve: Serve) -> None:
    node = opened(browser, serve(), "get_neighbours_graph_neighbours_get")
    assert "Entities at the most." in browser.wait_text(node, "depth").text
    unfold(browser, node, "200")
    unfold(browser, node, "Fields NeighbourResponse")
    browser.wait_text(node, "is_truncated")
    unfold(browser, node, "Example")
    assert "entities" in json.loads(browser.find(f"{node} pre").text)
    picture(browser, "docs-route")
    assert browser.errors() == []


def test_every_route_unfolds_without_a_fault(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/docs")
    browser.find("#query_query_post")
    open_all = "for (const node of document.querySelectorAll('details')) node.open = true; "
    settle = "return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    for _ in range(4):
        browser.script(open_all + settle)
    browser.wait(lambda: len(browser.all("form.try")) == len(browser.all(".route")) or None, "all forms")
    assert not browser.script("return document.body.textContent.match(/undefined|\\[object/)")
    unnamed = browser.script(
        """return [...document.querySelectorAll("input, select, textarea, button")].filter(
             (e) => !e.labels?.length && !e.getAttribute("aria-label") && !e.textContent.trim()
           ).map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    assert browser.errors() == []


def test_request_is_sent_with_the_key_of_the_main_page(browser: Browser, serve: Serve) -> None:
    address = serve(FakeChatModel(ANSWER), api_key="the-key")
    browser.open(address)
    browser.write("dialog input", "the-key")
    browser.find("dialog button.main").click()
    browser.find("#question")
    browser.errors()
    node = opened(browser, address, "query_query_post")
    browser.write(f"{node} textarea[name=body]", '{"query": "Who leads Bob?", "mode": "naive"}')
    browser.find(f"{node} form button.main").click()
    told = shown(browser, node, "<b>Nobody</b> is bold.")
    assert told.startswith("200 OK")
    assert browser.all(f"{node} .result pre b") == []
    assert "the-key" not in browser.find("body").text
    picture(browser, "docs-tried")
    assert browser.errors() == []


def test_document_stays_guarded_and_a_key_is_asked_for(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve(api_key='the-key')}/docs")
    browser.find("dialog input")
    assert browser.all(".route") == []
    browser.write("dialog input", "the-key")
    browser.find("dialog button.main").click()
    browser.find("#query_query_post")


def test_failures_streams_and_bad_input_are_shown(browser: Browser, serve: Serve) -> None:
    address = serve(FakeChatModel(ANSWER, piece_characters=4))
    node = opened(browser, address, "get_entity_graph_entity_get")
    browser.write(f"{node} input[name=name]", "Nobody & Söhne/?#")
    browser.find(f"{node} form button.main").click()
    assert "404" in shown(browser, node, "Nobody & Söhne/?#")
    node = opened(browser, address, "query_stream_query_stream_post")
    browser.write(f"{node} textarea[name=body]", "{")
    browser.find(f"{node} form button.main").click()
    browser.wait_text(".toast.bad", "not valid JSON")
    browser.write(f"{node} textarea[name=body]", '{"query": "Who leads Bob?", "mode": "naive"}')
    browser.find(f"{node} form button.main").click()
    assert shown(browser, node, '{"details"').count("\n") > 2


def test_file_is_sent_and_deletion_is_confirmed(browser: Browser, serve: Serve) -> None:
    address = serve()
    node = opened(browser, address, "create_workspace_workspaces_post")
    browser.write(f"{node} textarea[name=body]", '{"name": "team"}')
    browser.find(f"{node} form button.main").click()
    assert shown(browser, node, "created").startswith("201")
    node = opened(browser, address, "delete_workspace_workspaces__name__delete")
    browser.write(f"{node} input[name=name]", "team")
    browser.find(f"{node} form button.main").click()
    browser.find("dialog").find_element("xpath", ".//button[.='Cancel']").click()
    browser.wait(lambda: not browser.all("dialog") or None, "the end of the dialog")
    assert browser.find(f"{node} form").text.count("deleted") == 0
    browser.find(f"{node} form button.main").click()
    browser.find("dialog button.danger").click()
    assert "200 OK" in shown(browser, node, "deleted")
