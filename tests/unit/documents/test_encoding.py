from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.documents.encoding import decode_text
from heliograph.errors import IngestError

CHINESE = "物联网设备使用 MQTT 协议，把传感器数据发送到服务器。第二段：安全连接采用 TLS 加密。"
GERMAN = "Über die Größe der Fläche: ein Café in Zürich, naïve Ideen."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "gb18030", "gbk"])
def test_chinese_is_read_in_its_usual_encodings(encoding: str) -> None:
    assert decode_text(CHINESE.encode(encoding), "a.txt") == CHINESE


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_wide_encodings_are_read_by_their_mark(encoding: str) -> None:
    assert decode_text(f"\ufeff{GERMAN}".encode(encoding), "a.txt") == GERMAN


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_western_text_falls_back_to_its_code_page(encoding: str) -> None:
    assert decode_text(GERMAN.encode(encoding), "a.txt") == GERMAN


@pytest.mark.parametrize(
    ("encodings", "text"),
    [
        (("shift_jis", "euc_jp"), "田中太郎は東京大学で物理学を教えている。彼は2010年に京都で研究所を設立した。"),
        (("euc_kr",), "김철수는 서울대학교에서 물리학을 가르친다. 그는 2010년에 부산에 연구소를 설립했다."),
        (("big5",), "臺北市政府位於信義區，市長由市民選舉產生。張偉在上海擔任工程師，負責望江鐘的修復。"),
        (("cp1251", "koi8_r", "cp866", "iso8859_5"), "Иван Петров построил мост через Волгу в САРАТОВЕ в 1965 году."),
        (("cp1251",), "Іван Франко народився у селі Нагуєвичі і жив у Львові."),
        (("iso8859_2", "cp1250"), "Zażółć gęślą jaźń: książka leży na półce w Łodzi."),
        (("iso8859_2", "cp1250"), "Příliš žluťoučký kůň úpěl ďábelské ódy v Brně."),
        (("iso8859_2", "cp1250"), "Árvíztűrő tükörfúrógép, főváros és könyv Győrből."),
        (("iso8859_9", "cp1254"), "Dosyaların çoğu İstanbul'da değiştirilmiştir; ağaç, ışık, şeker."),
        (("cp1257",), "Latvijā ēkas ir vecas, bet šķūņi jauni; žurnāls un ģimene."),
        (("iso8859_6",), "يعمل المهندس في مركز الأبحاث في القاهرة منذ عام."),
        (("cp1253",), "Ο Γιώργος Παπαδόπουλος ζει στην Αθήνα από το 2010."),
        (("cp1255",), "דוד כהן מנהל את הספרייה הלאומית בירושלים מאז 2012."),
        (("cp874",), "สมชายทำงานที่โรงพยาบาลในเชียงใหม่ และเขาอ่านหนังสือทุกวัน"),
        (("iso2022_jp",), "田中太郎は東京大学で物理学を教えている。"),
        (("cp1256",), "أحمد زويل عالم مصري ولد في دمنهور وعمل في معهد كاليفورنيا."),
    ],
)
def test_older_encodings_are_told_by_their_letters(encodings: tuple[str, ...], text: str) -> None:
    assert [decode_text(text.encode(encoding), "a.txt") for encoding in encodings] == [text] * len(encodings)


def test_older_encoding_with_one_damaged_byte_keeps_the_rest() -> None:
    text = "Иван Петров построил мост через Волгу. " * 3_000
    assert decode_text(text.encode("cp1251") + b"\x98", "a.txt") == text + "\ufffd"


def test_windows_quotes_and_undefined_bytes_are_read() -> None:
    assert decode_text("“quoted” – déjà".encode("cp1252"), "a.txt") == "“quoted” – déjà"
    assert decode_text(b"plain words and one odd byte \x81 here", "a.txt") == "plain words and one odd byte \x81 here"


def test_truncated_utf8_keeps_what_is_whole() -> None:
    assert decode_text(CHINESE.encode()[:-1], "a.txt") == CHINESE[:-1] + "\ufffd"


def test_empty_file_is_empty_text() -> None:
    assert decode_text(b"", "a.txt") == ""


def test_single_stray_nul_does_not_make_text_binary() -> None:
    assert decode_text(b"a text with \x00 one stray byte", "a.txt") == "a text with \x00 one stray byte"


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.7\n",
        b"PK\x03\x04rest",
        b"\x89PNG\r\n\x1a\n",
        b"SQLite format 3\x00",
        bytes(range(256)) * 4,
        b"\x00" * 99,
    ],
)
def test_binary_data_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(IngestError, match=r"'report\.bin'.*(convert|save)"):
        decode_text(data, "report.bin")


def test_random_bytes_are_refused() -> None:
    with pytest.raises(IngestError):
        decode_text(random.Random(0).randbytes(5000), "noise")


def test_utf16_without_a_mark_is_refused_not_garbled() -> None:
    with pytest.raises(IngestError, match="UTF-8"):
        decode_text("plain words".encode("utf-16-le"), "a.txt")


@settings(deadline=None)
@given(st.text())
def test_utf8_always_comes_back(text: str) -> None:
    data = ("words " * 100 + text).encode()
    assert decode_text(data, "a.txt") == "words " * 100 + text


@pytest.mark.parametrize("charset", ["punycode", "IDNA", "unicode_escape", "raw_unicode_escape", "zip", "a\0b"])
def test_declared_encoding_that_no_document_has_is_not_followed(charset: str) -> None:
    text = r"Mnchen-3ya MQTT \u0041"
    assert decode_text(text.encode(), "a.txt", charset) == text
