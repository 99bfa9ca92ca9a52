from __future__ import annotations

import json
from typing import Any

import pytest

from heliograph.errors import IngestError

from .samples import load


def notebook(*cells: dict[str, Any], **metadata: Any) -> str:
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": metadata, "cells": cells})


def code(source: str | list[str], *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": outputs}


def markdown(source: str | list[str]) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": source}


def blocks(*cells: dict[str, Any], **metadata: Any) -> list[str]:
    return load("study.ipynb", notebook(*cells, **metadata)).text.strip().split("\n\n")


def test_cells_come_in_their_order_with_code_fenced_in_its_language() -> None:
    document = load(
        "study.ipynb",
        notebook(
            markdown(["# Tides\n", "\n", "望江钟由林秀英铸造。 ![plot](attachment:plot.png)"]),
            code(["x <- 1\n", "x"]),
            {"cell_type": "raw", "source": "As it is."},
            code("  "),
            language_info={"name": "R"},
        ),
    )
    assert document.text == "# Tides\n\n望江钟由林秀英铸造。 plot\n\n```R\nx <- 1\nx\n```\n\nAs it is.\n"
    assert document.title == "Tides"
    assert document.metadata["programming_language"] == "R"
    assert document.metadata["cell_count"] == 4


def test_what_cells_print_is_kept_as_text() -> None:
    found = blocks(
        code(
            "run()",
            {"output_type": "stream", "name": "stdout", "text": ["10%\r", "100%\r\n", "\x1b[31mdone\x1b[0m"]},
            {"output_type": "execute_result", "data": {"text/plain": "42", "text/html": "<b>42</b>"}},
            {"output_type": "display_data", "data": {"text/plain": ["<Figure size 1x1>"], "image/png": "iVBO"}},
            {"output_type": "display_data", "data": {"text/plain": "<HTML object>", "text/html": "<p>Shown.</p>"}},
            {"output_type": "display_data", "data": {"text/markdown": "**bold**", "text/plain": "x"}},
            {"output_type": "error", "ename": "KeyError", "evalue": "'tide'", "traceback": ["\x1b[0m long"]},
        )
    )
    assert found == [
        "```python\nrun()\n```",
        "```text\n100%\ndone\n```",
        "```text\n42\n```",
        "Shown.",
        "**bold**",
        "```text\nKeyError: 'tide'\n```",
    ]


def test_third_format_is_read() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": ["Tides"]},
        {"cell_type": "code", "input": ["1 + 1"], "outputs": [{"output_type": "pyout", "text": ["2"]}]},
    ]
    text = load("old.ipynb", json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}]})).text
    assert text.strip().split("\n\n") == ["## Tides", "```python\n1 + 1\n```", "```text\n2\n```"]


@pytest.mark.parametrize(
    "cells", [None, 5, [5, None, {"cell_type": []}], [{"cell_type": "code", "outputs": [{"data": 1}]}]]
)
def test_odd_cells_are_passed_over(cells: Any) -> None:
    assert load("odd.ipynb", json.dumps({"cells": cells, "metadata": []})).text == ""


@pytest.mark.parametrize(("text", "why"), [("{", "is not JSON"), ("[1]", "no notebook"), ('{"a": 1}', "no notebook")])
def test_what_is_no_notebook_is_refused(text: str, why: str) -> None:
    with pytest.raises(IngestError, match=why):
        load("odd.ipynb", text)
    assert load("empty.ipynb", "").text == ""
