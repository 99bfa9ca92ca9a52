from __future__ import annotations

import json

import pytest

from heliograph.documents.markdown import markdown_table
from heliograph.errors import IngestError

from .samples import load


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "name,port\nMQTT,8883\n"),
        ("a.csv", "name;port\nMQTT;8883\n"),
        ("a.tsv", "name\tport\nMQTT\t8883\n"),
        ("a.csv", '"name","port"\r\n"MQTT","8883"\r\n\r\n'),
    ],
)
def test_delimited_values_become_a_table(name: str, text: str) -> None:
    document = load(name, text)
    assert document.text == "# a\n\n| name | port |\n| --- | --- |\n| MQTT | 8883 |\n"
    assert document.metadata["row_count"] == 1


def test_quoted_cells_may_hold_lines_bars_and_delimiters() -> None:
    assert "| a, b \\| c d | 2 |" in load("a.csv", 'x,y\n"a, b | c\nd",2\n').text


def test_empty_table_is_no_text() -> None:
    assert load("a.csv", "\n\n").text == ""
    assert markdown_table([]) == markdown_table([[], ["", " "]]) == ""


def test_rows_of_different_length_are_filled_up() -> None:
    assert markdown_table([["a", "b", ""], ["c"]]) == "| a | b |\n| --- | --- |\n| c |  |"


def test_rows_are_not_filled_up_to_the_square_of_a_file() -> None:
    count = 4_000
    header = ",".join(f"h{number}" for number in range(count))
    loaded = load("a.csv", (header + "\n" + "x\n" * count).encode())
    assert len(loaded.text) < 20 * count
    assert loaded.text.rstrip().endswith("\n| x |")


def test_links_between_notes_are_the_words_that_are_shown() -> None:
    note = (
        "See [[Pump 3|the pump]], [[Hall#North]], [[#Care]], [[Oil#^b2]] and ![[plan.png|300]]![[Care]].\n\n"
        "| a |\n| --- |\n| [[Pump 3\\|it]] |\n\n`[[x]]` [[1, 2]]\n\n```toml\n[[pump]]\n```\n"
    )
    assert load("a.md", note).text == (
        "See the pump, Hall > North, Care, Oil and Care.\n\n"
        "| a |\n| --- |\n| it |\n\n`[[x]]` [[1, 2]]\n\n```toml\n[[pump]]\n```\n"
    )
    assert load("a.txt", "[[anchor]]").text == "[[anchor]]"
    page = (
        "<aside>\nOil it.\n\n</aside>\n\nSee [Hall](Hall%2012ab.md#north), [it](https://p.example/a.md), ![x](a.md).\n"
    )
    assert load("a.md", page).text == "\nOil it.\n\n\n\nSee Hall, [it](https://p.example/a.md), ![x](a.md).\n"


def test_json_records_become_sections() -> None:
    records = [{"title": "Lamp", "port": 1, "tags": ["a", "b"], "text": "One.\nTwo."}, {"id": 7, "on": True, "x": None}]
    text = (
        "# a\n\n## Lamp\n\n- title: Lamp\n- port: 1\n- tags:\n  - a\n  - b\n\ntext:\n\nOne.\nTwo.\n\n"
        "## 7\n\n- id: 7\n- on: true\n"
    )
    assert load("a.json", json.dumps(records)).text == text
    assert load("a.jsonl", "\n".join(map(json.dumps, records)) + "\n\n").text == text


def test_json_object_is_a_nested_list() -> None:
    assert load("a.json", '{"a": {"b": [1, [2]]}, "c": "望江钟"}').text == (
        "# a\n\n- a:\n  - b:\n    - 1\n    - 2:\n      - 2\n- c: 望江钟\n"
    )


@pytest.mark.parametrize("text", ["", "  ", "[]", "{}", "null", '""'])
def test_json_without_values_is_no_text(text: str) -> None:
    assert load("a.json", text).text == ""


def test_broken_json_says_where() -> None:
    with pytest.raises(IngestError, match=r"a\.json.*line 1"):
        load("a.json", '{"a": ')
    with pytest.raises(IngestError, match=r"line 2 of 'a\.jsonl'"):
        load("a.jsonl", "{}\n{]\n")


def test_json_that_nests_without_end_is_refused() -> None:
    with pytest.raises(IngestError, match="flatten"):
        load("a.json", "[" * 100_000)


def test_code_is_fenced_in_its_language_under_its_name() -> None:
    document = load("src/main.py", "def f():\n    return '''```'''\n")
    assert document.text == "# main.py\n\n```python\ndef f():\n    return '''```'''\n```\n"
    assert (document.title, document.metadata["programming_language"]) == ("main.py", "python")


def test_fence_is_longer_than_those_within() -> None:
    assert load("a.rs", "/*\n```\n*/").text == "# a.rs\n\n````rust\n/*\n```\n*/\n````\n"


MAIL = b"""From: =?utf-8?q?Ada_N=C3=B6ll?= <ada@example.org>
To: Bo <bo@example.org>
Subject: The new gateway
Date: Wed, 01 May 2024 10:00:00 +0200
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=XX

--XX
Content-Type: multipart/alternative; boundary=YY

--YY
Content-Type: text/html; charset=utf-8

<p>It <b>works</b>.</p>
--YY--
--XX
Content-Type: application/pdf; name="plan.pdf"
Content-Disposition: attachment; filename="plan.pdf"
Content-Transfer-Encoding: base64

JVBERi0=
--XX--
"""


def test_mail_is_its_head_its_text_and_the_names_of_its_attachments() -> None:
    document = load("a.eml", MAIL)
    assert document.text == (
        "# The new gateway\n\nFrom: Ada Nöll <ada@example.org>\nTo: Bo <bo@example.org>\n"
        "Date: Wed, 01 May 2024 10:00:00 +0200\n\nIt works.\n\nAttachments:\n\n- plan.pdf (application/pdf)\n"
    )
    assert document.title == "The new gateway"
    assert document.metadata["created_at"] == "2024-05-01T10:00:00+02:00"


def test_plain_text_of_a_mail_goes_before_its_html() -> None:
    mail = MAIL.replace(
        b"--YY--", b"--YY\nContent-Type: text/plain; charset=gbk\n\n" + "你好".encode("gbk") + b"\n--YY--"
    )
    assert "\n\n你好\n\n" in load("a.eml", mail).text


def test_mail_in_an_unknown_charset_or_with_a_broken_date_is_read() -> None:
    mail = b"Subject: Hi\nDate: yesterday\nContent-Type: text/plain; charset=klingon\n\nText."
    document = load("a.eml", mail)
    assert document.text == "# Hi\n\nDate: yesterday\n\nText.\n"
    assert "created_at" not in document.metadata


def test_all_texts_of_a_mail_are_read_and_of_alternatives_one() -> None:
    # What a list appends is plain; what was written stands in two ways before it.
    mail = (
        b"Subject: Seals\nContent-Type: multipart/mixed; boundary=A\n\n--A\nContent-Type: multipart/alternative; "
        b"boundary=B\n\n--B\nContent-Type: text/plain\n\n \n--B\nContent-Type: text/html\n\n<p>The seal "
        b"<b>fits</b>.</p>\n--B--\n--A\nContent-Type: text/plain\n\nYou are on a list.\n--A--\n"
    )
    assert load("a.eml", mail).text == "# Seals\n\nThe seal fits.\n\nYou are on a list.\n"
    plain = mail.replace(b"\n \n--B", b"\nIt fits.\n--B")
    assert load("a.eml", plain).text == "# Seals\n\nIt fits.\n\nYou are on a list.\n"


def test_what_is_attached_to_a_mail_is_read() -> None:
    offer = b"From: Bo <bo@example.org>\nSubject: Offer 12\n\nThe seal costs 40 euros."
    mail = (
        b"Subject: Seals\nContent-Type: multipart/mixed; boundary=A\n\n--A\nContent-Type: text/plain\n\nSee below.\n"
        b"--A\nContent-Type: message/rfc822\n\n" + offer + b"\n--A\nContent-Type: application/octet-stream\n"
        b'Content-Disposition: attachment; filename="list.md"\n\n# Parts\n\nTen rings.\n\nWhere\n=====\n\nIn store 3.\n'
        b"--A\nContent-Type: image/png\nContent-Disposition: attachment; filename=logo.png\n\nxx\n--A--\n"
    )
    text = (
        "# Seals\n\nSee below.\n\nAttachments:\n\n- list.md (application/octet-stream)\n- logo.png (image/png)\n\n"
        "## list.md\n\n### Parts\n\nTen rings.\n\n### Where\n\nIn store 3.\n\n"
        "## Offer 12\n\nFrom: Bo <bo@example.org>\n\nThe seal costs 40 euros.\n"
    )
    assert load("a.eml", mail).text == text
    # Those of a mailbox, which may be thousands, are named.
    assert "Ten rings" not in load("a.mbox", b"From x\n" + mail).text


def test_saved_page_is_read_as_the_page() -> None:
    page = (
        b"From: <Saved by a browser>\nSubject: Seals\nMIME-Version: 1.0\nContent-Type: multipart/related; "
        b'type="text/html"; boundary=A\n\n--A\nContent-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: '
        b"quoted-printable\n\n<html><body><nav><a href=3D'/'>Home</a></nav><h1>Seals</h1><p>They fit f=C3=BCr all.</p>"
        b"</body></html>\n--A\nContent-Type: text/css\n\nbody { color: red }\n--A--\n"
    )
    document = load("a.mhtml", page)
    assert (document.title, document.text) == ("Seals", "# Seals\n\nThey fit für all.\n")
    with pytest.raises(IngestError, match="no headers"):
        load("a.mht", "words")


def test_mailbox_has_a_section_for_each_message_and_loses_none_for_a_broken_one() -> None:
    broken = b"Subject: Odd\nContent-Type: multipart/alternative; boundary=\n\n--\nContent-Type: text/plain\n\nx\n"
    plain = b"From: Bo <bo@example.org>\n\nThe pump runs.\n>From here it stops.\n\nFromage is no separator.\n"
    parts = (b"From ada Wed May  1 08:00:00 2024\n" + MAIL, b"From bo Wed\n" + plain, b"From x Wed\n" + broken)
    for data in (b"\n".join(parts), b"\n".join(parts).replace(b"\n", b"\r\n")):
        document = load("list.mbox", data)
        first, second, third = document.text.split("## ")[1:]
        assert first.startswith("The new gateway\n\nFrom: Ada")
        assert "It works.\n\nAttachments:\n\n- plan.pdf (application/pdf)" in first
        assert second.strip() == (
            "Bo <bo@example.org>\n\nFrom: Bo <bo@example.org>\n\nThe pump runs.\nFrom here it stops.\n\n"
            "Fromage is no separator."
        )
        assert third.startswith("Odd\n")
        assert document.metadata["message_count"] == 3


def test_file_without_messages_is_no_mailbox() -> None:
    with pytest.raises(IngestError, match="not a mailbox"):
        load("list.mbox", "just some words")


def test_text_that_is_no_mail_is_refused() -> None:
    with pytest.raises(IngestError, match="no headers"):
        load("a.eml", "just some words")


def test_message_that_nests_without_end_leaves_the_others_of_a_mailbox() -> None:
    deep = "Subject: deep\nContent-Type: message/rfc822\n\n" * 3_000
    text = load("a.mbox", f"From a\nSubject: one\n\nOil.\n\nFrom b\n{deep}\n\nFrom c\nSubject: two\n\nSeal.\n").text
    assert "## one\n\nOil." in text
    assert "## deep\n\n(This message is broken and was not read.)" in text
    assert "## two\n\nSeal." in text


@pytest.mark.parametrize("name", ["index.rst.txt", "INDEX.RST.TXT"])
def test_source_in_markup_that_is_shown_as_text_is_read_as_markup(name: str) -> None:
    document = load(name, "Lamps\n=====\n\nSee :ref:`oil <oil>`.\n")
    assert (document.title, document.metadata["mime_type"]) == ("Lamps", "text/x-rst")
    assert "See `oil`." in document.text


def test_comment_in_plain_text_is_no_title_of_a_change_log() -> None:
    entry = "lamp (2.1-1) unstable; urgency=low\n\n  * Trim the wick.\n  * Oil it.\n\n"
    text = (
        entry
        + "".join(entry.replace("2.1", f"2.0-{at}") for at in range(5))
        + "# Older entries have been removed from this changelog.\n"
    )
    assert load("changelog.txt", text).title == "lamp (2.1-1) unstable; urgency=low"
