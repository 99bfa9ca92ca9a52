"""Names of code in running text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.text.phrases import code_names, find_names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see src/heliograph/text/names.py and ./run.sh", ["src/heliograph/text/names.py", "./run.sh"]),
        ("publish to the topic home/kitchen/temp now", ["home/kitchen/temp"]),
        ("subscribe to home/+/temp_1", ["home/+/temp_1"]),
        ("call os.path.join with --dry-run", ["os.path.join", "--dry-run"]),
        ("and/or his/her/their red/green/blue", []),
        ("on 1/2/2020 at TCP/IP, e.g. this -- or that", []),
        ("no code", []),
    ],
)
def test_code_is_found(text: str, expected: list[str]) -> None:
    assert [name.text for name in code_names(text)] == expected


def test_code_is_kept_whole_among_names() -> None:
    found = {
        name.text: name.type
        for name in find_names("Run `mqtt_connect()` of src/net/mqtt.py in MyClass with config.yaml.")
    }
    assert found == dict.fromkeys(("mqtt_connect", "src/net/mqtt.py", "MyClass", "config.yaml"), "artifact")


@given(st.text(alphabet="ab/._-~+#1 ", max_size=80))
def test_spans_are_what_stands_there(text: str) -> None:
    for name in code_names(text):
        assert text[name.start : name.end] == name.text
