"""Telling languages apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.text.analysis import detect_language, is_chinese, question_language, stop_words


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("The broker forwards what the sensor publishes.", "en"),
        ("Der Broker leitet weiter, was der Sensor an das Netz sendet, und das ist nicht alles.", "de"),
        ("Welches Feld steht in einer Zeile an erster Stelle?", "de"),
        ("In welke map staat het bestand en wie is de eigenaar?", "nl"),
        ("In an hour I am in an inn.", "en"),
        ("Le serveur envoie les données dans le réseau et ne les garde pas.", "fr"),
        ("El servidor envía los datos a la red y no los guarda.", "es"),
        ("ESP32-S3 支持哪些 TLS 版本？", "zh"),
        ("消息队列遥测传输", "zh"),
        ("東京タワーはどこにありますか", "ja"),
        ("서울은 한국의 수도입니다", "ko"),
        ("Где находится Москва?", "ru"),
        ("Де знаходиться Київ і хто його мер?", "uk"),
        ("Πού είναι η Αθήνα;", "el"),
        ("أين تقع القاهرة", "ar"),
        ("", "en"),
        ("42 !?", "en"),
        ("MQTT", "en"),
    ],
)
def test_language_is_detected(text: str, language: str) -> None:
    assert detect_language(text) == language


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Wofür steht das I in MEDDPPICC?", "de"),
        ("Welche Sperre nimmt VACUUM FULL?", "de"),
        ("Welke map is dat en van wie is het?", "nl"),
        ("Was there a lamp?", "en"),
        ("VACUUM FULL lock", "en"),
        ("灯塔有多高？", "zh"),
    ],
)
def test_language_of_a_question_is_told_by_its_first_word_where_others_tell_none(question: str, language: str) -> None:
    assert question_language(question) == language


def test_language_of_english_with_some_chinese_is_english() -> None:
    assert detect_language("The Route Army (路军) was a military organization of the Republic.") == "en"


def test_language_reads_the_middle_of_a_long_text() -> None:
    assert detect_language("A" * 4000 + " " + "这是中文的内容。" * 3000) == "zh"


def test_chinese_is_told_from_japanese_and_from_english_with_a_gloss() -> None:
    assert is_chinese("网关把数据转发到 MQTT broker。")
    assert not is_chinese("これは日本語の文章です")
    assert not is_chinese("an ancient city (西安) in the west")
    assert not is_chinese("Слово 学习 означает учиться, и это долгая история русского языка.")
    assert not is_chinese("이순신 李舜臣 장군은 조선의 무신이다.")
    assert not is_chinese("كلمة 学习 تعني التعلم في اللغة الصينية.")


def test_stop_words_of_an_unknown_language_are_none() -> None:
    assert stop_words("xx") == frozenset()
    assert {"the", "of", "don't"} <= stop_words("en")
    assert {"的", "什么"} <= stop_words("zh")


@given(st.text())
def test_language_of_any_text_is_a_code(text: str) -> None:
    assert 2 <= len(detect_language(text)) <= 3
