"""Abbreviations introduced in brackets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.text.phrases import find_abbreviations, read_texts


def found(text: str) -> list[tuple[str, str]]:
    abbreviations = find_abbreviations(text, read_texts([text])[0])
    return [(text[slice(*short)], text[slice(*long)]) for short, long in abbreviations]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Message Queuing Telemetry Transport (MQTT) is used.", [("MQTT", "Message Queuing Telemetry Transport")]),
        ("The internet of things (IoT) grows.", [("IoT", "internet of things")]),
        ("It speaks TLS (Transport Layer Security).", [("TLS", "Transport Layer Security")]),
        ("消息队列遥测传输（MQTT）是一种协议。", [("MQTT", "消息队列遥测传输")]),
        ("MQTT（消息队列遥测传输）由IBM提出。", [("MQTT", "消息队列遥测传输")]),
        ("He was here (NASA) and (Paris).", []),
        ("a heat shock protein (XYZ)", []),
        ("(MQTT)", []),
        ("before chickens (B.C.) laid eggs", []),
        ("the Office of Management and Budget (OMB)", [("OMB", "Office of Management and Budget")]),
        ("Social Security Administration (SSA)", [("SSA", "Social Security Administration")]),
        ("the Caribbean Community (CARICOM)", [("CARICOM", "Caribbean Community")]),
        ("the school offers an examination (STX)", []),
        ("[guides](/sales/account-executive) (SAE)", []),
        ("The Single Source of Truth (SSoT) is here.", [("SSoT", "Single Source of Truth")]),
        ("Major League Baseball's (MLB) rules", [("MLB", "Major League Baseball")]),
    ],
)
def test_abbreviations_are_found(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


@settings(max_examples=60)
@given(st.text(alphabet="ABab ()（）消息传输.", max_size=60))
def test_both_forms_lie_in_the_text(text: str) -> None:
    for short, long in found(text):
        assert short
        assert long.strip()
