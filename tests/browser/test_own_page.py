from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from heliograph.service.access import hash_password
from heliograph.testing.fakes import FakeChatModel

from ..serving import ANSWER, EVIL, TWO, Serve
from .browser import Browser

# A folder to keep pictures in, for people to look at.
PICTURES = os.environ.get("HELIOGRAPH_TEST_PICTURES")
QUESTION = "Who leads Bob?"


def picture(browser: Browser, name: str) -> None:
    if PICTURES:
        browser.screenshot(Path(PICTURES) / f"{name}.png")


def ask(browser: Browser, question: str = QUESTION, mode: str = "") -> None:
    browser.write("#question", question)
    if mode:
        browser.choose("#mode", mode)
    browser.button("Send").click()
    browser.find(f"//article[@aria-label={json.dumps(question)}]")


def answered(browser: Browser) -> Any:
    """Wait for the last answer and return it."""
    browser.wait(lambda: (not browser.all(".answer[aria-busy=true]") and browser.all(".tools")) or None, "answer")
    return browser.all(".answer")[-1]


def drawn(browser: Browser) -> int:
    """Wait for the graph to be drawn and arranged; return how many entities it shows."""
    graph = browser.find(".sigma[data-drawn=true][data-arranging=false]")
    return int(graph.get_attribute("data-nodes"))


def find_entity(browser: Browser, name: str) -> None:
    browser.write("#search", name)
    browser.wait_text("#found li", "")
    browser.find("#search").send_keys("\n")


def fill(browser: Browser, **fields: str) -> None:
    """Fill the fields of the open dialog in and send it."""
    for name, text in fields.items():
        browser.write(f"dialog [name={name}]", text)
    browser.find("dialog button.main, dialog button.danger").click()
    browser.wait(lambda: not browser.all("dialog") or None, "the end of the dialog")


def test_question_is_answered_with_citations_that_open_their_source_beside_it(browser: Browser, serve: Serve) -> None:
    browser.open(serve(FakeChatModel(ANSWER, piece_characters=4)))
    ask(browser, mode="naive")
    browser.wait_text(".answer", "<b>Nobody</b> is bold.")
    browser.find("button.cite").click()
    mark = browser.find(".panel mark")
    assert "Ann leads Bob" in mark.text
    title = browser.find(".panel h2").text
    assert EVIL in title or "two.md" in title
    inside = "const r = arguments[0].getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight"
    assert browser.script(inside, mark)
    assert browser.find("#question").is_displayed()
    picture(browser, "own-citation")
    browser.button("Close").click()
    assert browser.all(".panel") == []
    picture(browser, "own-answer")
    assert browser.errors() == []


def test_answer_without_a_chat_model_is_quoted_and_that_is_explained_once(browser: Browser, serve: Serve) -> None:
    browser.open(serve())
    ask(browser)
    browser.wait_text(".reply", "No chat model is connected")
    assert answered(browser).text
    browser.button("Got it").click()
    ask(browser, "Who leads Ann?")
    browser.wait(lambda: len(browser.all(".refs")) == 2 or None, "two answers")
    assert browser.all(".offline") == []
    assert browser.errors() == []


def test_answer_in_markdown_is_laid_out_and_stays_text_otherwise(browser: Browser, serve: Serve) -> None:
    answer = (
        "# Who\n\n1. **Ann leads** Bob [1].\n   - *deep* `[1]`\n\n2. <img src=x onerror=alert(1)>\n\n"
        "| a | b |\n|---|---|\n| x [1] | 2 * 3 * 4 |\n\n```python\nprint('**code**')\n```\n[link](javascript:alert(1)) "
        "$e^{i\\pi} = -1$ costs $5"
    )
    browser.open(serve(FakeChatModel(answer, piece_characters=5)))
    ask(browser)
    answered(browser)
    assert browser.find(".answer h3").text == "Who"
    assert browser.find(".answer ol > li strong").text == "Ann leads"
    assert browser.find(".answer ol > li > ul code").text == "[1]"
    assert "<img src=x onerror=alert(1)>" in browser.find(".answer ol > li:nth-child(2)").text
    assert [cell.text.partition("\n")[0][:9].rstrip(" 1") for cell in browser.all(".answer td")] == ["x", "2 * 3 * 4"]
    browser.find(".answer pre .hljs-string")
    browser.find(".answer .math .katex")
    assert "[link](javascript:alert(1))" in browser.find(".answer").text
    assert "costs $5" in browser.find(".answer").text
    assert browser.all(".answer a") == browser.all(".answer img") == []
    browser.find(".answer td button.cite").click()
    browser.find(".panel .source")
    picture(browser, "own-markdown")
    assert browser.errors() == []


def test_conversations_are_kept_renamed_exported_and_deleted(browser: Browser, serve: Serve) -> None:
    chat = FakeChatModel(ANSWER)
    browser.open(serve(chat))
    for question in (QUESTION, "And who leads Ann?"):
        ask(browser, question)
        answered(browser)
    assert [item.text.strip() for item in browser.all(".turn h2")] == [QUESTION, "And who leads Ann?"]
    assert any(QUESTION in message.content for message in chat.requests[-1].messages[:-1])
    browser.driver.refresh()
    browser.wait_text(".turn h2", "And who leads Ann?")
    browser.wait_text(".answer", "Nobody")
    browser.button("New conversation").click()
    browser.wait(lambda: not browser.all(".turn") or None, "an empty conversation")
    browser.find(".talk a").click()
    browser.wait_text(".turn h2", QUESTION)
    browser.button(f"More: {QUESTION}").click()
    browser.button("Rename").click()
    fill(browser, name="<b>Team</b>")
    browser.wait_text(".talk", "<b>Team</b>")
    browser.button("More: <b>Team</b>").click()
    browser.button("Delete").click()
    browser.wait(lambda: not browser.all(".talk") or None, "no conversation")
    browser.button("Undo").click()
    browser.wait_text(".talk", "<b>Team</b>")
    assert browser.errors() == []


def test_question_is_edited_and_asked_again(browser: Browser, serve: Serve) -> None:
    chat = FakeChatModel(ANSWER)
    browser.open(serve(chat))
    ask(browser)
    answered(browser)
    browser.button("Edit and ask again").click()
    fill(browser, question="Who leads Ann?")
    browser.wait_text(".turn h2", "Who leads Ann?")
    answered(browser)
    assert len(browser.all(".turn")) == 1
    assert "Who leads Ann?" in chat.requests[-1].messages[-1].content


def test_two_modes_answer_side_by_side(browser: Browser, serve: Serve) -> None:
    browser.open(serve(FakeChatModel(ANSWER)))
    browser.find("#question")
    browser.button("Compare two modes").click()
    browser.choose("#second-mode", "local")
    ask(browser, mode="naive")
    browser.wait(lambda: len(browser.all(".tools")) == 2 or None, "two answers")
    assert [item.text for item in browser.all(".reply .head .soft")] == ["naive", "local"]
    left, right = browser.all(".reply")
    assert left.location["y"] == right.location["y"]
    picture(browser, "own-two-modes")


def test_inspector_says_what_became_of_what_was_found(browser: Browser, serve: Serve) -> None:
    browser.open(serve(FakeChatModel(ANSWER)))
    ask(browser, mode="fusion")
    answered(browser)
    browser.button("How it was found").click()
    browser.wait_text(".panel .kv", "fusion")
    for tab, sign in (("Passages", "kept"), ("Graph", "Bob"), ("Tokens", "Passages"), ("Prompt", "---User Query---")):
        browser.find(f"//button[@role='tab'][.='{tab}']").click()
        browser.wait_text(".panel-body", sign)
    picture(browser, "own-inspector")
    assert browser.errors() == []


def test_parameters_reach_the_service_and_presets_are_kept(browser: Browser, serve: Serve) -> None:
    chat = FakeChatModel(ANSWER)
    browser.open(serve(chat))
    browser.find("#question")
    browser.button("Parameters").click()
    browser.write("#parameters [name=user_prompt]", "Answer in verse.")
    browser.write("#parameters [name=chunk_top_k]", "1")
    browser.button("Save as preset").click()
    fill(browser, name="Verse")
    ask(browser, mode="naive")
    answered(browser)
    assert "Answer in verse." in chat.requests[-1].messages[0].content
    assert len(browser.all(".refs button")) == 1
    browser.button("Reset").click()
    browser.button("Verse").click()
    assert browser.find("#parameters [name=chunk_top_k]").get_attribute("value") == "1"


def test_slow_model_is_stopped_and_its_stage_is_told(browser: Browser, serve: Serve) -> None:
    chat = FakeChatModel(ANSWER, delay_seconds=60)
    browser.open(serve(chat))
    ask(browser, mode="naive")
    try:
        browser.wait_text(".stages", "Writing")
    finally:
        # Or the service waits for it.
        browser.button("Stop").click()
    browser.wait_text(".reply", "Stopped.")
    browser.wait(lambda: chat.cancelled or None, "the end of the call")
    assert browser.button("Ask again").is_displayed()
    assert browser.errors() == []


def test_model_that_fails_on_the_way_is_told_and_what_it_wrote_stays(browser: Browser, serve: Serve) -> None:
    browser.open(serve(FakeChatModel(ANSWER, piece_characters=6, cut_stream_after=2)))
    ask(browser, mode="naive")
    browser.wait_text(".reply [role=alert]", "fake")
    assert "Ann leads" in browser.find(".answer").text
    browser.button("Ask again").click()
    browser.wait_text(".reply [role=alert]", "fake")
    assert len(browser.all(".turn")) == 1


def test_failed_question_is_told(browser: Browser, serve: Serve) -> None:
    browser.open(serve())
    browser.find("#question")
    browser.button("Parameters").click()
    browser.write("#filter", '{"team":')
    browser.write("#question", QUESTION)
    browser.button("Send").click()
    browser.wait_text(".toast.bad", "not valid JSON")
    browser.write("#filter", '{"team": {"no": 1}}')
    browser.button("Send").click()
    browser.wait_text(".toast.bad", "no")
    browser.wait_text(".reply [role=alert]", "no")


def test_graph_is_drawn_walked_and_corrected(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#/graph")
    assert drawn(browser) == 4
    browser.wait_text(".legend", "person")
    find_entity(browser, "bob")
    browser.wait_text(".panel h2", "Bob")
    browser.button("Only its neighbourhood").click()
    browser.wait_text("#shown", "2 entities, 1 relations")
    browser.find("//aside//button[.='Ann']").click()
    browser.wait_text(".panel h2", "Ann")
    picture(browser, "own-graph")
    browser.find("//aside//button[.='leads']").click()
    browser.wait_text(".panel .statements", "Ann leads Bob.")
    browser.find("//aside//button[.='Ann']").click()
    browser.wait_text(".panel h2", "Ann")
    browser.button("Rename").click()
    fill(browser, name="<b>Anna</b>")
    browser.wait_text(".panel h2", "<b>Anna</b>")
    browser.button("Merge").click()
    fill(browser, name="Annie")
    browser.wait_text(".panel", "Cy")
    assert drawn(browser) == 3
    browser.button("Undo").click()
    browser.wait_text("#notice", "Undone.")
    browser.wait_text("#shown", "4 entities")
    find_entity(browser, "anna")
    browser.wait_text(".panel h2", "<b>Anna</b>")
    browser.button("Edit").click()
    fill(browser, description="sings.")
    browser.wait_text(".panel", "sings.")
    browser.button("Corrections").click()
    browser.wait_text(".panel", "renamed")
    assert browser.errors() == []


def test_what_is_typed_stays_when_the_page_is_drawn_again(browser: Browser, serve: Serve) -> None:
    browser.prefer("en-US", "light")
    browser.open(f"{serve()}/page/#/graph")
    drawn(browser)
    find_entity(browser, "bob")
    browser.button("Rename").click()
    browser.write("dialog [name=name]", "Robert")
    browser.prefer("en-US", "dark")
    browser.wait(lambda: browser.all("button[aria-label=Light]") or None, "the page in dark colours")
    browser.prefer("en-US", "light")
    fill(browser)
    browser.wait_text(".panel h2", "Robert")


def test_path_between_two_entities_is_found_and_what_is_hidden_goes(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#/graph")
    drawn(browser)
    find_entity(browser, "bob")
    browser.wait_text(".panel h2", "Bob")
    browser.button("Path from here").click()
    find_entity(browser, "cy")
    browser.wait_text("#notice", "There is no path")
    browser.button("Path from here").click()
    find_entity(browser, "ann")
    browser.wait_text("#notice", "→")
    browser.wait_text(".panel .statements", "Ann leads Bob.")
    browser.button("Hide").click()
    fill(browser)
    browser.wait_text("#shown", "1 relations")
    browser.button("List").click()
    assert {item.text for item in browser.all(".entities button")} == {"Ann", "Bob", "Annie", "Cy"}
    browser.button("Display").click()
    browser.choose("#graph select[aria-label='Colour by']", "community")
    browser.wait_text(".legend", "Community 1")
    assert browser.errors() == []


def test_graph_is_exported(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    told = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", told)
    browser.open(f"{serve()}/page/#/graph")
    drawn(browser)
    for kind, sign in (("GraphML", b'<node id="Annie">'), ("SVG", b"<circle"), ("PNG", b"\x89PNG")):
        browser.button("Export").click()
        browser.button(kind).click()
        path = tmp_path / f"graph.{kind.lower()}"
        browser.wait(lambda path=path: (path.is_file() and path.stat().st_size) or None, str(path))
        assert sign in path.read_bytes()


def test_document_is_opened_from_the_list_with_its_entities(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#/documents")
    browser.find("//td//a[.='two.md']").click()
    browser.wait_text(".document-text", "Annie lives in Cy")
    browser.wait_text(".document-text a.entity", "Annie")
    for tab, sign in (("Chunks", "Annie lives in Cy"), ("Entities", "place"), ("History", "Taken in")):
        browser.find(f"//button[@role='tab'][starts-with(., '{tab}')]").click()
        browser.wait_text("#document", sign)
    browser.find("//button[@role='tab'][.='Text']").click()
    browser.find("//a[contains(@class, 'entity')][.='Annie']").click()
    browser.wait_text(".panel h2", "Annie")
    assert browser.errors() == []


def test_names_of_documents_are_never_markup(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#/documents")
    browser.wait_text("#list", EVIL)
    browser.find(f'//td//a[contains(., "{EVIL[:9]}")]').click()
    browser.wait_text("#document", EVIL)
    assert browser.all("main img") == []
    assert "Heliograph" in browser.driver.title
    assert browser.errors() == []


PAYLOADS = (
    "<script>document.title='taken'</script>",
    "<img src=x onerror=\"document.title='taken'\">",
    "<svg onload=\"document.title='taken'\"><animate onbegin=alert(1) attributeName=x></svg>",
    "[a](javascript:document.title='taken') [b](JaVaScRiPt:alert(1)) [c](data:text/html,x) <javascript:alert(1)>",
    "![x](x\" onerror=\"document.title='taken') ![y](https://example.org/track.png)",
    "<iframe srcdoc=\"<script>parent.document.title='taken'</script>\"></iframe>",
    '<a href="https://x.org" onclick="document.title=\'taken\'">x</a><style>*{display:none}</style>',
    "```\"><img src=x onerror=document.title='taken'>\ncode\n```",
    "$\\href{javascript:document.title='taken'}{x}$ $\\htmlData{x=y}{z}$ $\\includegraphics{https://example.org/x.png}$",
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">',
    "[1]\ue0001\ue001<button class=cite data-ref=1 onclick=alert(1)>1</button>",
)


def test_replies_and_documents_cannot_run_script(browser: Browser, serve: Serve) -> None:
    text = "\n\n".join(PAYLOADS)
    browser.open(serve(FakeChatModel(f"Ann leads Bob [1].\n\n{text}", piece_characters=40)))
    ask(browser)
    answered(browser)
    browser.button("New conversation").click()
    browser.open(browser.driver.current_url.partition("#")[0] + "#/documents")
    browser.button("Paste a text").click()
    browser.script("const f = document.querySelector('#text'); f.value = arguments[0]", text)
    fill(browser, name="<script>x</script>.md")
    browser.find("//td//a[.='<script>x</script>.md']").click()
    browser.wait_text(".document-text", "code")
    harmful = """return [...document.querySelectorAll('main *')].flatMap((e) => [...e.attributes].filter((a) =>
      /^on/i.test(a.name) || /javascript:|data:/i.test(a.value)).map((a) => e.outerHTML))"""
    assert browser.script(harmful) == []
    assert browser.all("main script, main iframe, main img, main style, main math img") == []
    assert "Heliograph" in browser.driver.title
    requests = "return performance.getEntriesByType('resource').map((e) => new URL(e.name).origin)"
    assert set(browser.script(requests)) <= {browser.script("return location.origin")}
    assert browser.errors() == []


def test_key_is_asked_for_where_one_is_needed(browser: Browser, serve: Serve) -> None:
    browser.open(serve(api_key="the-key"))
    browser.write("dialog input", "wrong")
    browser.find("dialog button.main").click()
    browser.wait(lambda: browser.find("dialog input").get_attribute("value") == "" or None, "empty field")
    browser.write("dialog input", "the-key")
    browser.find("dialog button.main").click()
    browser.find("#question")
    browser.button("Log out").click()
    browser.find("dialog input")


def test_person_logs_in_with_a_password_and_a_reader_changes_nothing(browser: Browser, serve: Serve) -> None:
    accounts = [
        {"name": name, "password_hash": hash_password("secret-words"), "role": role}
        for name, role in (("eve", "write"), ("rita", "read"))
    ]
    address = serve(accounts=accounts)
    browser.open(address)
    browser.write("dialog input[name=username]", "eve")
    browser.write("dialog input[name=password]", "secret-words")
    picture(browser, "own-login")
    browser.find("dialog button.main").click()
    browser.find("#question")
    assert [option.text for option in browser.all("#workspace option")] == ["default"]
    browser.button("Log out").click()
    browser.write("dialog input[name=username]", "rita")
    browser.write("dialog input[name=password]", "secret-words")
    browser.find("dialog button.main").click()
    browser.find("//nav//a[contains(., 'Documents')]").click()
    browser.wait_text("#list", "two.md")
    assert browser.all("//button[.='Choose files']") == []
    assert browser.all("//button[starts-with(@aria-label, 'Delete')]") == []
    browser.find("//nav//a[contains(., 'Graph')]").click()
    drawn(browser)
    find_entity(browser, "bob")
    browser.wait_text(".panel h2", "Bob")
    assert browser.all("//button[.='Merge']") == []


VIEWS = (("ask", "#question"), ("documents", "#list table"), ("graph", "#shown"), ("overview", "#overview .tile"))
UNNAMED = """return [...document.querySelectorAll("input, select, textarea, button, a")].filter(
  (e) => !e.labels?.length && !e.getAttribute("aria-label") && !e.textContent.trim()).map((e) => e.outerHTML)"""


def test_page_can_be_used_by_keyboard_and_is_named(browser: Browser, serve: Serve) -> None:
    address = serve()
    for view, sign in VIEWS:
        browser.open(f"{address}/page/#/{view}")
        browser.find(sign)
        assert browser.script(UNNAMED) == [], view
        assert len(browser.all("h1")) == 1, view
    assert browser.script("return document.documentElement.lang") == "en"
    assert browser.script("return document.querySelector('.skip').textContent")
    browser.open(f"{address}/page/#/graph")
    drawn(browser)
    find_entity(browser, "bob")
    browser.wait_text(".panel h2", "Bob")
    # Focus is in what was opened, and Escape closes it.
    browser.wait(lambda: browser.script("return !!document.activeElement.closest('.panel')") or None, "focus")
    browser.find(".panel").send_keys("\ue00c")
    browser.wait(lambda: not browser.all(".panel") or None, "no panel")


CONTRAST = """
const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = (c) => { const [r, g, b] = c.map((v) => linear(v / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const read = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return { c: n.slice(0, 3), a: n[3] ?? 1 }; };
const ground = (e) => { for (; e; e = e.parentElement) { const { c, a } = read(getComputedStyle(e).backgroundColor);
  if (a > 0.99) return c; } return [255, 255, 255]; };
return [...document.querySelectorAll('#app *')].filter((e) => e.offsetParent
  && !e.closest(':disabled, [aria-hidden], .icon')
  && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).flatMap((e) => {
    const style = getComputedStyle(e);
    if (!style.color.startsWith('rgb')) return [];
    const [one, other] = [light(read(style.color).c), light(ground(e))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    return ratio < 4.5 ? [`${ratio.toFixed(2)} ${e.className} ${e.textContent.slice(0, 40)}`] : [];
  });
"""


AXE = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core: run `npm ci` in web/")
def test_nothing_serious_stands_in_the_way_of_assistive_technology(browser: Browser, serve: Serve) -> None:
    def violations() -> list[str]:
        browser.script(AXE.read_text("utf-8"))
        found = browser.script("return axe.run({resultTypes: ['violations']}).then((r) => r.violations)")
        serious = [item for item in found if item["impact"] in ("serious", "critical")]
        return [f"{item['id']}: {node['html']}" for item in serious for node in item["nodes"]]

    address = serve(FakeChatModel(ANSWER))
    for view, sign in (*VIEWS, ("api", ".route")):
        browser.open(f"{address}/page/#/{view}")
        browser.find(sign)
        assert violations() == [], view
    browser.open(f"{address}/page/#/ask")
    ask(browser, mode="naive")
    answered(browser)
    browser.find("button.cite").click()
    browser.find(".panel mark")
    assert violations() == []
    browser.button("Parameters").click()
    browser.button("How it was found").click()
    browser.find(".panel .kv")
    assert violations() == []
    browser.open(f"{address}/page/#/documents")
    browser.button("Paste a text").click()
    browser.find("dialog")
    assert violations() == []
    browser.open(f"{address}/page/#/graph")
    drawn(browser)
    find_entity(browser, "bob")
    browser.wait_text(".panel h2", "Bob")
    browser.wait_text(".panel .relations", "Ann")
    assert violations() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_told_from_their_ground(browser: Browser, serve: Serve, scheme: str) -> None:
    browser.prefer("en-US", scheme)
    try:
        address = serve()
        for view, sign in VIEWS:
            browser.open(f"{address}/page/#/{view}")
            browser.find(sign)
            assert browser.script(CONTRAST) == [], view
    finally:
        browser.prefer("en-US", "light")


def test_file_is_uploaded_processed_listed_and_deleted(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "notes & more.txt"
    path.write_text("Dee (person): dances.")
    browser.open(f"{serve()}/page/#/documents")
    browser.wait_text("#list", "two.md")
    assert EVIL in browser.find("#list").text
    browser.find("#list")
    browser.driver.find_element("css selector", "#files").send_keys(str(path))
    row = f'//tr[td[contains(., "{path.name}")] and td[normalize-space()="ready"]]'
    browser.find(row)
    # Whoever waited for it is led on to asking.
    browser.wait_text(".toast", "The documents are ready.")
    assert browser.find("//*[contains(@class, 'toast')]//button[normalize-space()='Ask']")
    picture(browser, "own-documents")
    browser.find(f"{row}//input").click()
    browser.wait_text(".selection", "1 selected")
    browser.button("Delete").click()
    browser.wait(lambda: not browser.all(row) or None, "deletion")
    browser.button("Undo").click()
    browser.find(f'{row}//button[starts-with(@aria-label, "Delete")]').click()
    browser.wait(lambda: not browser.all(row) or None, "deletion")
    # What may still be taken back is sent when the page is left.
    browser.driver.refresh()
    browser.wait_text("#list", "two.md")
    browser.wait(lambda: browser.driver.refresh() or (browser.find("#list") and not browser.all(row)) or None, "no row")
    assert browser.errors() == []


def test_from_a_folder_comes_what_the_command_line_takes_from_it(
    browser: Browser, serve: Serve, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    for name in ("sub/kept.md", "sub/empty.md", "picture.xyz", ".hidden/settings.md", ".draft.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("" if "empty" in name else "Dee (person): dances.")
    browser.open(f"{serve()}/page/#/documents")
    browser.wait_text("#list", "two.md")
    browser.wait_text(".kinds", "PDF")
    browser.driver.find_element("css selector", "input[type=file]:not(#files)").send_keys(str(folder))
    browser.wait_text(".toast", "1 accepted")
    browser.find('//tr[td[contains(., "kept.md")] and td[normalize-space()="ready"]]')
    assert not {"empty.md", "picture.xyz", "settings.md", "draft.md"} & set(browser.find("#list").text.split())


def test_text_is_pasted_and_its_name_replaces_what_it_held(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#/documents")
    browser.wait_text("#list", "two.md")
    for text in ("Dee (person): dances.", "Eli (person): sings."):
        browser.button("Paste a text").click()
        fill(browser, name="pasted.md", text=text)
        browser.wait_text("#notice", "1 accepted")
        browser.find('//tr[td[contains(., "pasted.md")] and td[normalize-space()="ready"]]')
    assert len(browser.all("//td[contains(., 'pasted.md')]")) == 1
    browser.write("#prefix", "pasted")
    browser.wait(lambda: len(browser.all("#list tbody tr")) == 1 or None, "one row")
    browser.find("//td//a[.='pasted.md']").click()
    browser.wait_text(".document-text", "sings")
    browser.find("//*[@role='tab' and normalize-space()='History']").click()
    assert [row.text.split()[0] for row in browser.find("#versions").find_elements("css selector", "tbody tr")] == [
        "2",
        "1",
    ]
    assert browser.errors() == []


def test_refused_text_stays_in_its_field(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve(max_text_bytes=1024)}/page/#/documents")
    browser.button("Paste a text").click()
    browser.write("#text", "too long " * 200)
    browser.find("dialog button.main").click()
    browser.wait(lambda: browser.all(".toast.bad") or None, "message")
    assert "1,024" in browser.script("return document.querySelector('.toast.bad').textContent")
    assert browser.find("#text").get_attribute("value").startswith("too long")


def test_address_is_given_and_what_became_of_it_is_told(browser: Browser, serve: Serve) -> None:
    address = serve()
    browser.open(f"{address}/page/#/documents")
    browser.button("Add an address").click()
    fill(browser, url=f"{address}/health")
    row = browser.find(f"//tr[contains(., '{address}/health') and contains(., 'failed')]")
    assert "not a public address" in row.text
    assert "allow_private_addresses" in row.find_element("css selector", ".advice").text
    assert browser.errors() == []


def test_empty_workspace_leads_to_the_samples_and_a_first_answer(browser: Browser, serve: Serve) -> None:
    browser.open(serve())
    browser.choose("#workspace", "New workspace")
    fill(browser, name="empty")
    browser.wait_text("h1", "Begin with some documents")
    picture(browser, "own-first-run")
    browser.find("//button[contains(., 'sample documents')]").click()
    # What is asked is offered as soon as the document that answers it is ready, and others are still read.
    browser.find("//*[contains(@class, 'examples')]//button[contains(., 'Meridian')]").click()
    answered(browser).find_element("css selector", ".cite").click()
    browser.find(".panel mark")


def test_documents_are_given_where_none_is_yet_and_left_for_asking(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#/ask")
    browser.choose("#workspace", "New workspace")
    fill(browser, name="empty")
    browser.find("//button[contains(., 'Add your own')]").click()
    browser.button("Paste a text").click()
    fill(browser, name="bob.md", text="Bob (person): mends boats.")
    browser.wait_text("#list", "ready")
    browser.wait_text(".toast", "The documents are ready.")
    browser.find("//*[contains(@class, 'toast')]//button[normalize-space()='Ask']").click()
    browser.find("//*[contains(@class, 'examples')]//button[contains(., 'Bob')]").click()
    assert answered(browser).text
    assert browser.errors() == []


def test_deletion_is_of_the_workspace_that_it_was_asked_in(browser: Browser, serve: Serve) -> None:
    address = serve()
    other = {"X-Heliograph-Workspace": "other"}
    httpx.post(f"{address}/workspaces", json={"name": "other"}).raise_for_status()
    text = {"text": TWO, "file_source": "two.md"}
    httpx.post(f"{address}/documents/text", json=text, headers=other).raise_for_status()

    def sources(headers: dict[str, str]) -> set[str]:
        return {item["source"] for item in httpx.get(f"{address}/documents", headers=headers).json()["documents"]}

    browser.open(f"{address}/page/#/documents")
    browser.button("Delete two.md").click()
    browser.choose("#workspace", "other")
    browser.wait_text("#list", "two.md")
    # Whoever leaves the page takes nothing back any more.
    browser.open("about:blank")
    browser.wait(lambda: "two.md" not in sources({}) or None, "the end of the deletion")
    assert sources(other) == {"two.md"}


def test_overview_shows_counts_times_and_no_secret(browser: Browser, serve: Serve) -> None:
    address = serve(FakeChatModel(ANSWER))
    browser.open(address)
    ask(browser, mode="naive")
    answered(browser)
    browser.find("//nav//a[contains(., 'Overview')]").click()
    browser.wait_text(".tiles", "Entities")
    browser.wait_text("#latencies", "naive")
    browser.wait_text("#spend", "Chat model")
    picture(browser, "own-overview")
    assert browser.errors() == []


def test_switch_overrides_the_colour_scheme_until_it_is_what_the_system_has(browser: Browser, serve: Serve) -> None:
    def shade() -> int:
        return browser.script("return +getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/)[0]")

    browser.prefer("en-US", "light")
    browser.open(serve())
    switch = browser.button("Dark")
    assert shade() > 200
    switch.send_keys(" ")
    assert shade() < 60
    browser.driver.refresh()
    browser.find("#question")
    assert shade() < 60
    browser.button("Light").click()
    assert shade() > 200
    assert browser.script("return localStorage.length") == 0
    assert browser.errors() == []


@pytest.mark.parametrize("width", [390, 820, 1440])
@pytest.mark.parametrize(("language", "scheme"), [("en-US", "light"), ("zh-CN", "dark")])
def test_pages_fit_every_window(browser: Browser, serve: Serve, width: int, language: str, scheme: str) -> None:
    address = serve(FakeChatModel(ANSWER))
    browser.size(width, 844 if width < 600 else 900)
    browser.prefer(language, scheme)
    try:
        for view, sign in VIEWS:
            browser.open(f"{address}/page/#/{view}")
            browser.find(sign)
            assert browser.script("return document.documentElement.scrollWidth <= innerWidth"), view
            assert browser.script("return document.documentElement.lang") == ("zh-CN" if "zh" in language else "en")
            red = browser.script("return +getComputedStyle(document.documentElement).backgroundColor.match(/\\d+/)[0]")
            assert (red < 60) == (scheme == "dark")
            picture(browser, f"own-{view}-{width}-{language[:2]}-{scheme}")
    finally:
        browser.prefer("en-US", "light")


def test_language_is_switched_and_kept(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#/documents")
    browser.wait_text("nav", "Documents")
    browser.button("中文").click()
    browser.wait_text("nav", "文档")
    browser.wait_text("#list", "就绪")
    browser.driver.refresh()
    browser.wait_text("nav", "文档")
    browser.button("English").click()
    browser.wait_text("nav", "Documents")


WORK = """
(() => {
  const [real, work] = [window.fetch, %s];
  const text = `event: work\\ndata: ${JSON.stringify(work)}\\n\\n`;
  const open = () => new Response(new ReadableStream({ start: (to) => to.enqueue(new TextEncoder().encode(text)) }));
  const headers = { "Content-Type": "application/json" };
  const listed = () => new Response(JSON.stringify({ jobs: work.jobs, total: 1 }), { headers });
  window.fetch = async (at, how) =>
    String(at).includes("api/v1/events") ? open() : String(at).includes("documents/jobs") ? listed() : real(at, how);
})();
"""


@contextmanager
def telling(browser: Browser, work: dict[str, Any]) -> Generator[None]:
    """Have pages told that this is under way."""
    source = WORK % json.dumps(work)
    script = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    try:
        yield
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


RUNNING = {
    "id": "job-1",
    "kind": "process",
    "state": "running",
    "is_unfinished": True,
    "sources": [],
    "error": "",
    "done": 1,
    "total": 3,
}


@pytest.mark.parametrize(
    ("done", "begun", "told"),
    [
        (0, 0, "Loading the models"),
        (3, 12, "Reading chunks 3 / 12 · +5 entities · +4 relations · 1 failed · time left 7.0 s"),
        (12, 12, "Embedding and storing · +5 entities · +4 relations · 1 failed"),
    ],
)
def test_work_is_told_by_stage(browser: Browser, serve: Serve, done: int, begun: int, told: str) -> None:
    found = (
        {"entities": 5, "relations": 4, "failed": 1, "seconds_left": 7} if begun else {"entities": 0, "relations": 0}
    )
    job = RUNNING | {"counts": {"chunks": done, "chunks_begun": begun, **found}}
    with telling(browser, {"documents": {"pending": 3}, "jobs": [job], "latest": job}):
        browser.open(f"{serve()}/page/#/documents")
        assert browser.find("#work .stage").text == told
        assert "1 / 3" in browser.find("#work").text
        assert browser.errors() == []


def test_documents_that_are_ready_can_be_asked_while_others_are_read(browser: Browser, serve: Serve) -> None:
    with telling(browser, {"documents": {"pending": 3}, "jobs": [RUNNING | {"counts": {}}], "latest": None}):
        browser.open(f"{serve()}/page/#/ask")
        assert "as soon as the first are in" in browser.find("#reading").text
    with telling(
        browser, {"documents": {"processed": 2, "pending": 3}, "jobs": [RUNNING | {"counts": {}}], "latest": None}
    ):
        browser.open("about:blank")
        browser.open(f"{serve()}/page/#/ask")
        browser.wait_text("#reading", "2 / 5 documents ready")
        assert "You can ask already" in browser.find("#reading").text
        browser.find(".examples button").click()
        assert answered(browser).text
        assert browser.errors() == []


def test_all_documents_are_looked_after_at_once(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#/documents")
    browser.wait_text("#list", "two.md")

    def choose(text: str) -> None:
        browser.button("More").click()
        browser.find(f"//*[contains(@class, 'items')]//button[normalize-space()='{text}']").click()

    choose("Read the input folder")
    browser.wait_text(".toast", "The input folder is read.")
    choose("Log of the work")
    browser.wait_text("dialog", "Scanning the input folder")
    browser.find("//dialog//button[normalize-space()='Close']").click()
    browser.wait(lambda: not browser.all("dialog, #work") or None, "the end of the work")
    choose("Delete all documents")
    browser.write("dialog [name=name]", "another")
    browser.find("dialog button.danger").click()
    assert not browser.script("return document.querySelector('dialog form').checkValidity()")
    fill(browser, name="default")
    browser.wait_text("h1", "Begin with some documents")
    assert browser.errors() == []
