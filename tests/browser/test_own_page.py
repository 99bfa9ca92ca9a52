from __future__ import annotations

import os
from pathlib import Path

from heliograph.service.access import hash_password
from heliograph.testing.fakes import FakeChatModel

from ..serving import ANSWER, EVIL, Serve
from .browser import Browser

# A folder to keep pictures in, for people to look at.
PICTURES = os.environ.get("HELIOGRAPH_TEST_PICTURES")


def picture(browser: Browser, name: str) -> None:
    if PICTURES:
        browser.screenshot(Path(PICTURES) / f"{name}.png")


def test_question_is_answered_with_citations_that_open_their_source(browser: Browser, serve: Serve) -> None:
    browser.open(serve(FakeChatModel(ANSWER, piece_characters=4)))
    browser.write("#question", "Who leads Bob?")
    browser.find("#mode option[value=naive]").click()
    browser.find("#ask form button.main").click()
    browser.wait_text(".answer", "<b>Nobody</b> is bold.")
    browser.find("button.cite").click()
    mark = browser.find("dialog mark")
    assert "Ann leads Bob" in mark.text
    assert EVIL in browser.find("dialog h2").text or "two.md" in browser.find("dialog h2").text
    picture(browser, "own-citation")
    browser.find("//dialog//button[.='Close']").click()
    picture(browser, "own-answer")
    assert browser.errors() == []


def test_answer_without_a_chat_model_is_quoted(browser: Browser, serve: Serve) -> None:
    browser.open(serve())
    browser.write("#question", "Who leads Bob?")
    browser.find("#ask form button.main").click()
    browser.wait_text("#result", "no chat model is configured")
    assert browser.find(".answer").text
    assert browser.errors() == []


def test_answer_in_markdown_is_laid_out_and_stays_text_otherwise(browser: Browser, serve: Serve) -> None:
    answer = (
        "# Who\n\n1. **Ann leads** Bob [1].\n   - *deep* `[1]`\n\n2. <img src=x onerror=alert(1)>\n\n"
        "| a | b |\n|---|---|\n| x [1] | 2*3*4 |\n\n```\n**code**\n```\n[link](javascript:alert(1))"
    )
    browser.open(serve(FakeChatModel(answer, piece_characters=5)))
    browser.write("#question", "Who leads Bob?")
    browser.find("#ask form button.main").click()
    browser.wait_text("#notice", "Done.")
    assert browser.find(".answer h4").text == "Who"
    assert browser.find(".answer ol > li > strong").text == "Ann leads"
    assert browser.find(".answer ol > li > ul code").text == "[1]"
    assert [item.get_attribute("value") for item in browser.all(".answer ol > li")] == ["1", "2"]
    assert "<img src=x onerror=alert(1)>" in browser.find(".answer ol > li:nth-child(2)").text
    assert [cell.text.split()[0] for cell in browser.all(".answer td")] == ["x", "2*3*4"]
    assert browser.find(".answer pre").text == "**code**"
    assert "[link](javascript:alert(1))" in browser.find(".answer").text
    assert browser.all(".answer a") == browser.all(".answer img") == []
    browser.find(".answer td button.cite").click()
    browser.find("dialog .source")
    picture(browser, "own-markdown")
    assert browser.errors() == []


def test_conversation_goes_on_until_a_new_one_is_begun(browser: Browser, serve: Serve) -> None:
    chat = FakeChatModel(ANSWER)
    browser.open(serve(chat))
    for question in ("Who leads Bob?", "And who leads Ann?"):
        browser.write("#question", question)
        browser.find("#ask form button.main").click()
        browser.wait_text("#result article:first-child h2", question)
        browser.wait_text("#notice", "Done.")
    assert [item.text for item in browser.all("#result h2")] == ["And who leads Ann?", "Who leads Bob?"]
    assert any("Who leads Bob?" in message.content for message in chat.requests[-1].messages[:-1])
    browser.button("New conversation").click()
    assert browser.all("#result article") == []


def test_failed_question_is_told(browser: Browser, serve: Serve) -> None:
    browser.open(serve())
    browser.find("#ask summary").click()
    browser.write("#question", "Who leads Bob?")
    browser.write("#filter", '{"team":')
    browser.find("#ask form button.main").click()
    browser.wait_text("#notice", "not valid JSON")
    browser.write("#filter", '{"team": {"no": 1}}')
    browser.find("#ask form button.main").click()
    browser.wait_text("#notice.bad", "no")


def test_graph_is_walked_and_corrected(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#graph")
    browser.write("#search", "bob")
    browser.button("Show").click()
    browser.wait_text("aside h2", "Bob")
    assert {node.get_attribute("data-name") for node in browser.all("g.node")} == {"Ann", "Bob"}
    browser.find('g.node[data-name="Ann"]').click()
    browser.wait_text("aside h2", "Ann")
    picture(browser, "own-graph")
    browser.find("aside").find_element("xpath", ".//button[.='leads']").click()
    browser.wait_text("aside", "Ann leads Bob.")
    browser.find('g.node[data-name="Ann"]').send_keys("\n")
    browser.wait_text("aside h2", "Ann")
    browser.button("Rename").click()
    browser.write("dialog input", "<b>Anna</b>")
    browser.find("dialog button.main").click()
    browser.wait_text("aside h2", "<b>Anna</b>")
    browser.button("Merge").click()
    browser.write("dialog input", "Annie")
    browser.find("dialog button.main").click()
    browser.wait_text("aside", "Cy")
    assert {node.get_attribute("data-name") for node in browser.all("g.node")} == {"Annie", "Bob", "Cy"}
    browser.button("Undo last change").click()
    browser.wait_text("#notice", "Undone.")
    browser.button("Edit").click()
    browser.write("dialog textarea", "sings.")
    browser.find("dialog button.main").click()
    browser.wait_text("aside", "sings.")
    assert browser.errors() == []


def test_graph_begins_with_the_best_connected_in_the_colours_of_their_types(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#graph")
    browser.wait_text("aside h2", "")
    shown = {node.get_attribute("data-name") for node in browser.all("g.node")}
    assert shown >= {"Ann", "Bob"}
    assert browser.all("g.node.k0")
    assert browser.find(".legend .k0").text
    assert len(browser.all("g.node.chosen")) == 1
    assert browser.errors() == []


def test_document_is_opened_from_the_list(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#documents")
    browser.find("//td//button[.='two.md']").click()
    browser.wait_text("dialog .source", "Annie lives in Cy")
    assert browser.errors() == []


def test_document_names_are_never_markup(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#graph")
    browser.write("#search", "bob")
    browser.button("Show").click()
    browser.wait_text("aside h2", "Bob")
    browser.find(f'//aside//button[contains(., "{EVIL[:9]}")]').click()
    browser.wait_text("dialog h2", EVIL)
    assert browser.all("img") == []
    assert "Heliograph" in browser.driver.title
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


def test_person_logs_in_with_a_password(browser: Browser, serve: Serve) -> None:
    account = {"name": "eve", "password_hash": hash_password("secret-words"), "role": "write"}
    browser.open(serve(accounts=[account]))
    browser.write("dialog input[name=username]", "eve")
    browser.write("dialog input[name=password]", "secret-words")
    picture(browser, "own-login")
    browser.find("dialog button.main").click()
    browser.find("#question")
    assert [option.text for option in browser.all("#workspace option")] == ["default"]


def test_page_can_be_used_by_keyboard_and_is_named(browser: Browser, serve: Serve) -> None:
    browser.open(serve())
    browser.find("#question")
    unnamed = browser.script(
        """return [...document.querySelectorAll("input, select, textarea, button")].filter(
             (e) => !e.labels?.length && !e.getAttribute("aria-label") && !e.textContent.trim()
           ).map((e) => e.outerHTML)"""
    )
    assert unnamed == []
    assert browser.script("return document.documentElement.lang") == "en"
    assert browser.script("return document.querySelector('.skip').textContent")


def test_file_is_uploaded_processed_listed_and_deleted(browser: Browser, serve: Serve, tmp_path: Path) -> None:
    path = tmp_path / "notes & more.txt"
    path.write_text("Dee (person): dances.")
    browser.open(f"{serve()}/page/#documents")
    browser.wait_text("#list", "two.md")
    assert EVIL in browser.find("#list").text
    browser.find("#files").send_keys(str(path))
    row = f'//tr[td[contains(., "{path.name}")] and td[normalize-space()="processed"]]'
    browser.find(row)
    picture(browser, "own-documents")
    browser.find(f'{row}//button[.="Delete"]').click()
    browser.find("dialog button.main").click()
    browser.wait(lambda: not browser.all(row) or None, "deletion")
    browser.find("#documents select option[value=failed]").click()
    browser.wait_text("#list", "There are no documents yet.")
    assert browser.all("img") == []
    assert browser.errors() == []


def test_text_is_pasted_and_its_name_replaces_what_it_held(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve()}/page/#documents")
    browser.wait_text("#list", "two.md")
    browser.find("//summary[.='Paste a text']").click()
    for text in ("Dee (person): dances.", "Eli (person): sings."):
        browser.write("#text-name", "pasted.md")
        browser.write("#text", text)
        browser.find("//details[summary='Paste a text']//button[.='Add']").click()
        browser.wait_text("#notice", "1 of 1 texts accepted")
        browser.find(
            f"//tr[td[contains(., 'pasted.md') and contains(., '{text}')] and td[normalize-space()='processed']]"
        )
    assert browser.find("#text").get_attribute("value") == ""
    assert len(browser.all("//td[contains(., 'pasted.md')]")) == 1
    assert browser.errors() == []


def test_refused_text_stays_in_its_field(browser: Browser, serve: Serve) -> None:
    browser.open(f"{serve(max_text_bytes=1024)}/page/#documents")
    browser.find("//summary[.='Paste a text']").click()
    browser.write("#text", "too long " * 200)
    browser.find("//details[summary='Paste a text']//button[.='Add']").click()
    browser.wait_text("#notice.bad", "1,024")
    assert browser.find("#text").get_attribute("value").startswith("too long")


def test_address_is_given_and_what_became_of_it_is_told(browser: Browser, serve: Serve) -> None:
    address = serve()
    browser.open(f"{address}/page/#documents")
    browser.find("//summary[contains(., 'by its address')]").click()
    browser.write("#url", f"{address}/health")
    browser.find("//details[contains(summary, 'by its address')]//button[.='Add']").click()
    row = browser.find(f"//tr[contains(., '{address}/health') and contains(., 'failed')]")
    assert "not a public address" in row.text
    assert browser.errors() == []


def test_switch_overrides_the_colour_scheme_until_it_is_what_the_system_has(browser: Browser, serve: Serve) -> None:
    def shade() -> int:
        return browser.script("return +getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")

    browser.prefer("en-US", "light")
    browser.open(serve())
    switch = browser.button("Dark")
    assert (shade() > 200, switch.get_attribute("aria-pressed")) == (True, "false")
    switch.send_keys(" ")
    assert (shade() < 60, switch.get_attribute("aria-pressed")) == (True, "true")
    browser.find("//a[.='API']").click()
    browser.find("#find")
    assert shade() < 60
    browser.button("Dark").click()
    assert shade() > 200
    assert browser.script("return localStorage.length") == 0
    assert browser.errors() == []


def test_pages_fit_a_narrow_window(browser: Browser, serve: Serve) -> None:
    address = serve()
    size = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for place, sign in (("", "#question"), ("#documents", "#list table"), ("#graph", "aside h2")):
            browser.open(f"{address}/page/{place}")
            browser.find(sign)
            for summary in browser.all(f"{place or '#ask'} summary"):
                summary.click()
            assert browser.script("return document.documentElement.scrollWidth <= innerWidth"), place
            picture(browser, f"own-narrow-{place.strip('#')}")
    finally:
        browser.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_page_follows_language_and_colour_scheme(browser: Browser, serve: Serve) -> None:
    browser.prefer("zh-CN", "dark")
    try:
        browser.open(f"{serve()}/page/#graph")
        browser.wait_text("nav", "图谱")
        browser.wait_text("aside h2", "Ann")
        assert browser.script("return document.documentElement.lang") == "zh-CN"
        red, *_ = browser.script("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
        assert red < 60
        picture(browser, "own-dark")
    finally:
        browser.prefer("en-US", "light")
