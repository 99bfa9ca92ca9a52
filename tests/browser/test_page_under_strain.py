"""The page with models that are slow, fail or lie, below a prefix, by keyboard, and over hundreds of questions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from heliograph.chat.base import ChatRequest
from heliograph.errors import ModelTimeout
from heliograph.testing.fakes import FakeChatModel

from ..serving import ANSWER, Serve
from ..unit.documents.samples import PdfPages
from .browser import Browser
from .test_own_page import AXE, CONTRAST, QUESTION, VIEWS, answered, ask, drawn, fill

ENTER, ESCAPE, TAB, DOWN, LEFT, SPACE = "\ue007", "\ue00c", "\ue004", "\ue015", "\ue012", " "


@pytest.fixture
def preferences(browser: Browser) -> Iterator[Browser]:
    yield browser
    browser.prefer("en-US", "light")


def press(browser: Browser, *keys: str) -> None:
    for key in keys:
        browser.script("return document.activeElement")
        browser.driver.switch_to.active_element.send_keys(key)


def tab_to(browser: Browser, text: str) -> None:
    """Move on by Tab until what has the focus is called so."""
    name = """const e = document.activeElement;
      return e.getAttribute('aria-label') || e.labels?.[0]?.textContent || e.textContent.trim()"""
    for _ in range(80):
        if browser.script(name) == text:
            return
        press(browser, TAB)
    raise AssertionError(f"no {text!r} is reached by Tab")


def test_slow_model_can_be_stopped(browser: Browser, serve: Serve) -> None:
    chat = FakeChatModel(ANSWER, delay_seconds=600)
    browser.open(serve(chat))
    ask(browser, mode="naive")
    browser.wait_text(".stages", "Writing")
    browser.button("Stop").click()
    browser.wait_text(".reply", "Stopped.")
    browser.wait(lambda: chat.cancelled or None, "the call to be cancelled")
    assert browser.find("#question").is_enabled()
    assert browser.errors() == []


def test_failing_model_is_told_of_in_the_language_of_the_page_and_asked_again(browser: Browser, serve: Serve) -> None:
    is_down = [True]

    def reply(_: ChatRequest) -> str:
        if is_down:
            raise ModelTimeout("the model 'fake' did not answer within 3 s")
        return ANSWER

    browser.open(serve(FakeChatModel(reply)))
    browser.button("中文").click()
    browser.write("#question", QUESTION)
    browser.button("发送").click()
    browser.wait_text(".reply [role=alert]", "模型未在规定时间内响应")
    assert "within 3 s" in browser.find(".reply [role=alert]").text
    is_down.clear()
    browser.button("English").click()
    browser.button("Ask again").click()
    browser.wait_text(".answer", "Ann leads Bob")


def test_answer_that_breaks_off_keeps_what_came(browser: Browser, serve: Serve) -> None:
    browser.open(serve(FakeChatModel(f"{ANSWER} " * 20, piece_characters=20, cut_stream_after=12)))
    ask(browser, mode="naive")
    browser.wait_text(".reply [role=alert]", "broke off")
    assert "Ann leads Bob" in browser.find(".answer").text
    browser.driver.refresh()
    browser.wait_text(".answer", "Ann leads Bob")


def test_lies_of_a_model_lead_nowhere(browser: Browser, serve: Serve) -> None:
    lie = "The moon leads Bob [9]. Cy is in Bern [1].\n\n### References\n\n- [1] secret.pdf\n- [9] moon.md"
    browser.open(serve(FakeChatModel(lie)))
    ask(browser, mode="naive")
    answered(browser)
    assert "secret.pdf" not in browser.find("#result").text
    assert {button.text for button in browser.all("button.cite")} <= {"1"}
    browser.find(".warnings summary").click()
    browser.wait_text(".warnings li", "left out")
    assert browser.errors() == []


def test_everything_works_below_a_prefix(browser: Browser, serve: Serve) -> None:
    address = serve(FakeChatModel(ANSWER), prefix="/team/kb")
    browser.open(f"{address}/")
    ask(browser, mode="naive")
    answered(browser)
    browser.find("button.cite").click()
    browser.find(".panel mark")
    for view, sign in (*VIEWS, ("api", ".route")):
        browser.open(f"{address}/page/#/{view}")
        browser.find(sign)
    paths = "return performance.getEntriesByType('resource').map((e) => new URL(e.name).pathname)"
    assert all(path.startswith("/team/kb/") for path in browser.script(paths))
    assert browser.errors() == []


def test_failed_document_is_tried_again_alone(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    address = serve()
    browser.open(f"{address}/page/#/documents")
    for name in ("one", "two"):
        path = tmp_path / f"{name}.pdf"
        path.write_bytes(b"%PDF-1.4 broken")
        browser.wait_text("#list", "two.md")
        browser.driver.find_element("css selector", "#files").send_keys(str(path))
        browser.find(f"//tr[contains(., '{name}.pdf') and contains(., 'failed')]")
    inputs = next((tmp_path / "kb").rglob("one.pdf")).parent
    for name in ("one", "two"):
        (inputs / f"{name}.pdf").write_bytes(PdfPages().line(72, 100, "Dee (person): dances.").next().data())
    browser.button("Try again: one.pdf").click()
    browser.find("//tr[contains(., 'one.pdf') and contains(., 'ready')]")
    browser.find("//tr[contains(., 'two.pdf') and contains(., 'failed')]")


def test_page_of_a_pdf_is_shown_beside_the_answer(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "dance.pdf"
    path.write_bytes(PdfPages().line(72, 100, "Dee dances on the roof of the theatre every night.").next().data())
    browser.open(f"{serve()}/page/#/documents")
    browser.wait_text("#list", "two.md")
    browser.driver.find_element("css selector", "#files").send_keys(str(path))
    browser.find("//tr[contains(., 'dance.pdf') and contains(., 'ready')]")
    browser.find("//nav//a[contains(., 'Ask')]").click()
    ask(browser, "Who dances on the roof of the theatre every night?", "naive")
    answered(browser)
    browser.find("//*[@class='refs']//button[contains(., 'dance.pdf')]").click()
    browser.button("Show the page as printed: 1").click()
    browser.find(".page-picture canvas")
    dark = """const c = arguments[0], d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
      let n = 0; for (let i = 0; i < d.length; i += 4) n += d[i] < 128; return n"""
    assert browser.script(dark, browser.find(".page-picture canvas")) > 50
    assert browser.errors() == []


def test_graph_is_narrowed_and_steered_by_keyboard(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#/graph")
    assert drawn(browser) == 4
    tab_to(browser, "Display")
    press(browser, ENTER)
    tab_to(browser, "Leave out entities without relations")
    press(browser, SPACE, ESCAPE)
    browser.wait(lambda: not browser.all(".sheet") or None, "no sheet")
    browser.script("document.querySelector('.canvas').focus()")
    before = browser.script("return document.querySelector('.sigma canvas').toDataURL().length")
    press(browser, LEFT, "+", "0")
    assert before
    browser.write("#search", "bo")
    browser.wait_text("#found li", "Bob")
    press(browser, DOWN, ENTER)
    browser.wait_text(".panel h2", "Bob")
    tab_to(browser, "Edit")
    press(browser, ENTER)
    browser.find("dialog textarea")
    press(browser, " He sings.")
    tab_to(browser, "Save")
    press(browser, ENTER)
    browser.wait_text(".panel", "He sings.")
    press(browser, ESCAPE)
    assert browser.errors() == []


def test_question_is_asked_and_its_source_read_by_keyboard(browser: Browser, serve: Serve) -> None:
    browser.open(serve(FakeChatModel(ANSWER)))
    browser.wait(lambda: browser.script("return document.activeElement.id === 'question'") or None, "focus")
    press(browser, QUESTION, ENTER)
    answered(browser)
    browser.script("document.querySelector('main').focus()")
    tab_to(browser, "Source 1")
    press(browser, ENTER)
    browser.find(".panel mark")
    press(browser, ESCAPE)
    browser.wait(lambda: not browser.all(".panel") or None, "no panel")
    tab_to(browser, "How it was found")
    press(browser, ENTER)
    browser.find(".panel .kv")


@pytest.mark.skipif(not AXE.is_file(), reason="needs axe-core: run `npm ci` in web/")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en-US", "zh-CN"])
def test_every_theme_and_language_can_be_read(preferences: Browser, serve: Serve, language: str, scheme: str) -> None:
    browser = preferences
    browser.prefer(language, scheme)
    address = serve(FakeChatModel(ANSWER))
    for view, sign in VIEWS:
        browser.open(f"{address}/page/#/{view}")
        browser.find(sign)
        assert browser.script(CONTRAST) == [], view
        browser.script(AXE.read_text("utf-8"))
        found = browser.script("return axe.run({resultTypes: ['violations']}).then((r) => r.violations)")
        assert [item["id"] for item in found if item["impact"] in ("serious", "critical")] == [], view
    words = browser.find("nav").text
    assert ("文档" in words) == language.startswith("zh")


ASK_MANY = """
const [count, done] = [arguments[0], arguments[1]];
const until = (test) => new Promise((go) => { const look = () => (test() ? go() : setTimeout(look, 5)); look(); });
const one = (selector) => document.querySelector(selector);
(async () => {
  for (let n = 0; n < count; n += 1) {
    await until(() => one('#question') && !one('.turn'));
    const field = one('#question');
    field.value = `Who leads Bob, for the ${n}th time?`;
    field.dispatchEvent(new Event('input', { bubbles: true }));
    await until(() => one('.send[type=submit]:not(:disabled)'));
    one('.send').click();
    await until(() => one('.tools'));
    one('.talks > .button').click();
  }
  done(true);
})();
"""


def test_memory_stays_flat_over_many_questions(browser: Browser, serve: Serve) -> None:
    def megabytes() -> float:
        browser.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
        return browser.driver.execute_cdp_cmd("Runtime.getHeapUsage", {})["usedSize"] / 1e6

    browser.open(serve(FakeChatModel(ANSWER)))
    browser.find("#question")
    browser.driver.set_script_timeout(300)
    used: list[float] = []
    for asked in range(20, 220, 20):
        # So few at once that the driver does not give up where the machine is busy.
        assert browser.driver.execute_async_script(ASK_MANY, 20)
        if asked % 40 == 0:
            used.append(megabytes())
    stored = "return indexedDB.databases().then((all) => all.length)"
    assert browser.script(stored) == 1
    # What is listed of a conversation stays; its answers, passages and traces do not.
    # `python -m benchmarks web_page` asks 500.
    assert used[-1] - used[0] < 2, json.dumps(used)
    assert browser.errors() == []


def test_text_is_pasted_by_keyboard(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#/documents")
    browser.wait_text("#list", "two.md")
    browser.script("document.querySelector('main').focus()")
    tab_to(browser, "Paste a text")
    press(browser, ENTER)
    fill(browser, name="keys.md", text="Eve (person): types.")
    browser.find("//tr[contains(., 'keys.md') and contains(., 'ready')]")
