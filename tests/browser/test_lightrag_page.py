"""LightRAG's own page, as its wheel brings it, against this service.

Needs the folder of the built page in `HELIOGRAPH_TEST_WEB_PAGE`: `lightrag/api/webui` of the wheel `lightrag-hku`, of
1.4.0 or later. What a version's page has not is not asked of it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from heliograph.service.access import hash_password
from heliograph.testing.fakes import FakeChatModel

from ..serving import ANSWER, Serve
from .browser import Browser
from .test_own_page import picture

FOLDER = os.environ.get("HELIOGRAPH_TEST_WEB_PAGE", "")
pytestmark = pytest.mark.skipif(
    not FOLDER, reason="needs HELIOGRAPH_TEST_WEB_PAGE, the folder of LightRAG's built page (lightrag/api/webui)"
)


@pytest.fixture
def opened(browser: Browser, serve: Serve) -> Browser:
    account = {"name": "eve", "password_hash": hash_password("secret-words"), "role": "admin"}
    address = serve(FakeChatModel(ANSWER, piece_characters=4), web_page_dir=FOLDER, accounts=[account])
    browser.open(address)
    browser.write("#username-input", "eve")
    browser.write("#password-input", "secret-words")
    browser.find("button[type=submit]").click()
    browser.find('//button[@role="tab" and normalize-space()="Documents"]')
    return browser


def tab(browser: Browser, name: str) -> None:
    browser.find(f'//button[@role="tab" and normalize-space()="{name}"]').click()


def choose_node(browser: Browser, name: str) -> None:
    tab(browser, "Knowledge Graph")
    field = browser.find('[placeholder^="Search nodes"]')
    field.click()
    field.send_keys(name)
    browser.find(f'//*[@role="option" and normalize-space()="{name}"]').click()


def pencil(browser: Browser, name: str) -> None:
    browser.find(f'(//*[normalize-space(text())="{name}"]/following::*[contains(@class, "lucide-pencil")])[1]').click()


def test_person_logs_in_uploads_and_sees_it_processed(opened: Browser, tmp_path: Path) -> None:
    path = tmp_path / "three.txt"
    path.write_text("Dee (person): dances.\nDee -> Ann [knows] 1.0: Dee knows Ann.")
    opened.wait_text("body", "All (2)")
    opened.button("Upload").click()
    # It can be focused once the page knows which kinds of files are read.
    field = opened.wait(lambda: opened.all('[tabindex="0"] > input[type="file"]') or None, "file field")[0]
    field.send_keys(str(path))
    opened.wait_text("body", "Files uploaded successfully")
    # All that can be chosen is within its box, however many kinds of files there are.
    box = 'input[type="file"] ~ div'
    assert opened.script("return arguments[0].scrollHeight <= arguments[0].clientHeight + 1", opened.find(box))
    opened.wait_text("body", "Completed (3)")
    opened.wait_text("table", "Dee (person): dances.")
    picture(opened, "lightrag-documents")
    assert opened.errors() == []


def test_question_is_answered_as_it_is_written(opened: Browser) -> None:
    tab(opened, "Retrieval")
    opened.find('[placeholder^="Enter your query"]').send_keys("Who leads Bob?")
    opened.button("Send").click()
    opened.wait_text("body", "Ann leads Bob [1].")
    opened.wait_text("body", "References")
    picture(opened, "lightrag-answer")
    assert opened.errors() == []


def test_graph_is_browsed_and_edited(opened: Browser) -> None:
    choose_node(opened, "Ann")
    opened.wait_text("body", "leads the team.")
    pencil(opened, "Description")
    opened.write('[role="dialog"] textarea', "leads everybody.")
    opened.find('//*[@role="dialog"]//button[normalize-space()="Save"]').click()
    opened.wait_text("body", "leads everybody.")
    opened.wait(lambda: opened.all('[role="dialog"]') == [] or None, "end of the dialog")
    picture(opened, "lightrag-edited")
    pencil(opened, "Name")
    opened.write('[role="dialog"] textarea', "Anna")
    opened.find('//*[@role="dialog"]//button[normalize-space()="Save"]').click()
    opened.wait(lambda: opened.all('[role="dialog"]') == [] or None, "end of the dialog")
    picture(opened, "lightrag-renamed")
    opened.driver.refresh()
    choose_node(opened, "Anna")
    opened.wait_text("body", "leads everybody.")
    assert opened.errors() == []


def test_interface_is_shown_to_who_has_logged_in(opened: Browser) -> None:
    if not opened.all('//button[@role="tab" and normalize-space()="API"]'):
        pytest.skip("needs a page with the section API: give that of LightRAG 1.4.0 to 1.5.6")
    tab(opened, "API")
    opened.driver.switch_to.frame(opened.find("iframe"))
    opened.wait_text("main", "/documents/upload")
    assert not any(link.is_displayed() for link in opened.all("nav a"))
    opened.driver.switch_to.default_content()
    picture(opened, "lightrag-interface")
    assert opened.errors() == []
