"""The rules that all strategies keep, and those of the two that follow the structure of a text."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.documents.markdown import find_headings
from heliograph.embedding.base import EmbeddingInfo
from heliograph.errors import IngestError
from heliograph.ingest.chunking import (
    HeadingPaths,
    MarkdownChunker,
    SemanticChunker,
    SpanChunker,
    TokenChunker,
    make_chunker,
)
from heliograph.models import Chunk
from heliograph.settings import IngestSettings
from heliograph.text.tokens import count_tokens

STRATEGIES = (TokenChunker, SemanticChunker, MarkdownChunker)
STRUCTURED = (SemanticChunker, MarkdownChunker)

LINES = st.sampled_from(
    [
        *("", "", "   ", "# One", "## Two", "### Three", "###### Six", "Setext", "===", "---", "intro:"),
        *(
            "A sentence. And another one! Is it?",
            "word " * 30,
            "x" * 90,
            "他来了。她走了！为什么？没有人知道，",
            "混合 text 与 English。",
        ),
        *("- item", "  - nested item", "1. first", "* star. With two sentences.", "    indented code", "\ttab code"),
        *("```python", "```", "~~~", "    ```", "print('x')  # not a heading", "# a comment", "> quoted. Text."),
        *(
            "| a | b |",
            "|---|---|",
            "a | b",
            "--- | ---",
            "Anna: hello there.",
            "e\u0301te\u0301 n\u0303",
            "👨‍👩‍👧😀🇨🇳",
            "﷽",
        ),
    ]
)
TEXTS = st.one_of(
    st.lists(LINES, max_size=40).map("\n".join),
    st.lists(LINES, max_size=40).map("\r\n".join),
    st.text(st.sampled_from("ab \n　。，中文字😀👨‍👩‍👧é#`-=\t|.*1") | st.characters(codec="utf-8"), max_size=300),
)


def blank_between(text: str, chunks: list[Chunk]) -> list[str]:
    ends = [0, *(chunk.end for chunk in chunks)]
    starts = [*(chunk.start for chunk in chunks), len(text)]
    return [text[end:start] for end, start in zip(ends, starts, strict=True)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=150)
@given(text=TEXTS, max_tokens=st.integers(4, 60), overlap=st.integers(0, 20), pages=st.lists(st.integers(0, 300)))
def test_chunks_keep_the_rules(
    strategy: type[SpanChunker], text: str, max_tokens: int, overlap: int, pages: list[int]
) -> None:
    overlap = min(overlap, max_tokens - 1)
    page_starts = sorted(min(page, len(text)) for page in pages)
    chunks = strategy(max_tokens, overlap).chunk("doc-1", text, page_starts)
    assert not "".join(blank_between(text, chunks)).strip()
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    assert len({chunk.id for chunk in chunks}) == len(chunks)
    headings = find_headings(text)
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end] == chunk.text.strip() != ""
        assert chunk.token_count == count_tokens(chunk.text) <= max_tokens
        assert chunk.page == (sum(start <= chunk.start for start in page_starts) or None)
        last = next((item.title for item in reversed(headings) if item.start <= chunk.start), None)
        assert (chunk.headings[-1] if chunk.headings else None) == last
    for before, after in pairwise(chunks):
        assert before.start <= after.start
        if strategy is not TokenChunker:  # Its windows share tokens of the whole text, white space too.
            assert before.start < after.start
            assert before.end < after.end
            assert count_tokens(text[after.start : before.end]) <= overlap


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(deadline=None, max_examples=50)
@given(text=TEXTS, separator=st.sampled_from(["\n", "word", "。", "# "]))
def test_separator_parts_texts_under_every_strategy(strategy: type[SpanChunker], text: str, separator: str) -> None:
    pieces = [piece.strip() for piece in text.split(separator) if piece.strip()]
    chunks = strategy(10_000, 100, separator, split_by_only=True).chunk("doc-1", text)
    assert [chunk.text for chunk in chunks] == pieces
    cut = strategy(8, 2, separator).chunk("doc-1", text)
    assert all(separator not in chunk.text for chunk in cut)
    assert all(chunk.text == text[chunk.start : chunk.end] for chunk in cut)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_too_long_piece_is_an_error_under_every_strategy(strategy: type[SpanChunker]) -> None:
    with pytest.raises(IngestError, match=r"'doc-1'.*chunk_tokens"):
        strategy(5, 0, "|", split_by_only=True).chunk("doc-1", "one|" + "a " * 30)


def paragraphs(count: int, *, heading_every: int = 0, sentences: int = 4) -> list[str]:
    """Return paragraphs of different lengths, no two the same."""
    blocks: list[str] = []
    for number in range(count):
        if heading_every and number % heading_every == 0:
            blocks.append(f"{'##' if number % (2 * heading_every) else '#'} Part {number}")
        length = 1 + (number * 7919) % (2 * sentences)
        said = [
            f"Pump {number} of line {place} feeds the basin beside gate {number + place}." for place in range(length)
        ]
        blocks.append(" ".join(said))
    return blocks


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("heading_every", [0, 5])
def test_editing_a_paragraph_changes_the_chunks_around_it_only(strategy: type[SpanChunker], heading_every: int) -> None:
    blocks = paragraphs(320, heading_every=heading_every)
    chunker = strategy(150, 20)
    before = {chunk.id for chunk in chunker.chunk("doc-1", "\n\n".join(blocks))}
    assert len(before) >= 200
    for index in range(0, len(blocks), 5):
        if blocks[index].startswith("#"):
            continue
        edited = [*blocks[:index], blocks[index].replace("feeds", "no longer feeds", 1), *blocks[index + 1 :]]
        after = {chunk.id for chunk in chunker.chunk("doc-1", "\n\n".join(edited))}
        assert 1 <= len(after - before) <= 3, index


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_removing_and_adding_a_paragraph_stays_local(strategy: type[SpanChunker]) -> None:
    blocks = paragraphs(320)
    chunker = strategy(150, 20)
    before = {chunk.id for chunk in chunker.chunk("doc-1", "\n\n".join(blocks))}
    for edited in (blocks[:100] + blocks[101:], [*blocks[:100], "An entirely new remark.", *blocks[100:]], blocks[1:]):
        after = {chunk.id for chunk in chunker.chunk("doc-1", "\n\n".join(edited))}
        assert len(after - before) <= 4


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("fence", ["```", "~~~~", "    "])
def test_code_that_fits_is_never_cut(strategy: type[SpanChunker], fence: str) -> None:
    lines = [f"value_{number} = compute({number})" for number in range(9)]
    indented = not fence.strip()
    code = "\n".join(f"    {line}" for line in lines) if indented else "\n".join([f"{fence}python", *lines, fence])
    size = count_tokens(code)
    for count in range(1, 8):
        text = "\n\n".join([*paragraphs(count), code, *paragraphs(3)])
        for overlap in (0, size // 4):
            chunks = strategy(size + 3, overlap).chunk("doc-1", text)
            assert any(code.strip() in chunk.text for chunk in chunks)


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize(
    "rows",
    [
        ["```", *(f"value_{number} = compute({number})" for number in range(60)), "```"],
        ["| name | size |", "|---|---|", *(f"| pump {number} | {number * 3} |" for number in range(60))],
        ["name | size", "--- | ---", *(f"pump {number} | {number * 3}" for number in range(60))],
    ],
    ids=["code", "table", "bare table"],
)
def test_too_long_code_and_tables_are_cut_at_line_ends(strategy: type[SpanChunker], rows: list[str]) -> None:
    text = "\n".join(rows)
    chunks = strategy(100, 20).chunk("doc-1", f"Before.\n\n{text}\n\nAfter.")
    assert len(chunks) > 4
    lines = [line for chunk in chunks for line in chunk.text.split("\n") if line]
    assert lines == ["Before.", *rows, "After."]


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_short_end_joins_the_chunk_before(strategy: type[SpanChunker]) -> None:
    text = "\n\n".join([*paragraphs(30), "The end."])
    chunks = strategy(150, 20).chunk("doc-1", text)
    assert chunks[-1].text.endswith("The end.")
    assert min(chunk.token_count for chunk in chunks) >= 30


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_overlap_is_whole_sentences(strategy: type[SpanChunker]) -> None:
    text = "\n\n".join(paragraphs(40, sentences=8))
    chunks = strategy(150, 40).chunk("doc-1", text)
    shared = [text[after.start : before.end] for before, after in pairwise(chunks)]
    assert sum(bool(part.strip()) for part in shared) > len(shared) * 0.8
    assert all(part.startswith("Pump ") and part.endswith(".") for part in shared if part.strip())


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_long_chinese_paragraph_is_cut_at_sentences(strategy: type[SpanChunker]) -> None:
    text = "".join(f"第{number}号水泵位于北岸的第{number * 3}间机房。它向水池供水！" for number in range(60))
    chunks = strategy(120, 20).chunk("doc-1", text)
    assert len(chunks) > 5
    assert all(chunk.text[-1] in "。！" for chunk in chunks)
    assert all(text[: chunk.start] == "" or text[chunk.start - 1] in "。！" for chunk in chunks)


def test_markdown_sections_start_chunks_and_small_ones_share_one() -> None:
    long, short = "\n\n".join(paragraphs(12)), "A section of its own says a little more than the least. " * 3
    short = short.strip()
    text = f"# Guide\n\nIntro.\n\n## Long\n\n{long}\n\n## A\n\n{short}\n\n## B\n\nShort b.\n\n# Other\n\nShort c."
    chunks = MarkdownChunker(150, 20).chunk("doc-1", text)
    assert chunks[0].text.startswith("# Guide\n\nIntro.\n\n## Long\n\nPump")
    assert chunks[-2].text == f"## A\n\n{short}\n\n## B\n\nShort b."
    assert chunks[-2].headings == ("Guide", "A")
    assert (chunks[-1].text, chunks[-1].headings) == ("# Other\n\nShort c.", ("Other",))
    assert {chunk.headings for chunk in chunks[1:-2]} == {("Guide", "Long")}


def test_markdown_keeps_a_list_and_its_lead_together_where_they_fit() -> None:
    items = "\n".join(f"- Step {number}: open gate {number}.\n  - Then wait." for number in range(8))
    lead = f"Do this:\n\n{items}"
    for count in range(1, 8):
        text = "\n\n".join([*paragraphs(count), lead, *paragraphs(4)])
        chunks = MarkdownChunker(count_tokens(lead) + 30, 10).chunk("doc-1", text)
        assert any(lead in chunk.text for chunk in chunks), count


def test_marks_inside_a_fence_are_no_structure() -> None:
    code = "```\n# not a heading\n\n- not an item\n\n| not | a row |\n```"
    text = f"# Real\n\nWords here.\n\n{code}\n\nMore words."
    (chunk,) = MarkdownChunker(200, 20).chunk("doc-1", text)
    assert (chunk.text, chunk.headings) == (text, ("Real",))


@pytest.mark.parametrize(
    ("chunking", "strategy"),
    [("tokens", TokenChunker), ("semantic", SemanticChunker), ("markdown", MarkdownChunker), ("auto", SemanticChunker)],
)
def test_setting_chooses_the_strategy(chunking: str, strategy: type[SpanChunker]) -> None:
    settings = IngestSettings(chunking=chunking, split_by="|")  # pyright: ignore[reportArgumentType, reportCallIssue]
    chunker = make_chunker(settings, EmbeddingInfo("e", 8, 512), extracts_by_chat=False)
    assert type(chunker) is strategy
    assert (chunker.max_tokens, chunker.overlap_tokens) == (348, 43)
    assert [chunk.text for chunk in chunker.chunk("doc-1", "a|b")] == ["a", "b"]


def lines_run(work: Callable[[], object]) -> int:
    """Return how many lines of Python run: the same on every machine, unlike time."""
    count = 0

    def trace(_frame: object, event: str, _argument: object) -> Callable[..., object]:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # pyright: ignore[reportArgumentType]
    try:
        work()
    finally:
        sys.settrace(before)
    return count


GROWING = {
    "one line": lambda size: "word " * (size // 5),
    "one word": lambda size: "x" * size,
    "fences": lambda size: "```\nx = 1\n" * (size // 10),
    "rows": lambda size: "| a | b |\n" * (size // 10),
    "sections": lambda size: "# A\n\n## B\n\ntext\n\n" * (size // 20),
    "nested items": lambda size: "- a\n  - b\n    - c\n" * (size // 20),
    "same paragraphs": lambda size: "The same words.\n\n" * (size // 17),
    "sentences": lambda size: "He came. 她走了。" * (size // 13),
    "blank": lambda size: "\n \n" * (size // 3),
}


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("kind", GROWING)
def test_work_grows_in_proportion_to_the_text(strategy: type[SpanChunker], kind: str) -> None:
    chunker = strategy(150, 20)
    small, large = (
        lines_run(lambda size=size: chunker.chunk("doc-1", GROWING[kind](size))) for size in (10_000, 40_000)
    )
    assert large <= 5 * small + 1_000


def test_long_indents_are_passed_over_at_once() -> None:
    # Were each of a million spaces tried as a start, this would take hours.
    text = f"Intro.\n\n{' ' * 1_000_000}- deep\n\n- item\n{' ' * 1_000_000}more.\n\n" + "The end. " * 400
    chunks = SemanticChunker(150, 0).chunk("doc", text)
    assert chunks[-1].end == len(text.rstrip())


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("kind", ["one line", "fences", "rows"])
def test_two_megabytes_are_cut(strategy: type[SpanChunker], kind: str) -> None:
    text = GROWING[kind](2_000_000)
    chunks = strategy(1200, 100).chunk("doc-1", text)
    assert chunks[-1].end == len(text.rstrip())
    assert max(chunk.token_count for chunk in chunks) <= 1200


@pytest.mark.parametrize("question", ["**How is it trimmed?**", "How is it trimmed?", "**Wick**", "怎么剪？"])
def test_a_question_stays_with_its_answer(question: str) -> None:
    paragraph = " ".join(f"The lamp number {number} burns all night long." for number in range(8))
    text = "\n\n".join([paragraph, question, paragraph] * 4)
    chunks = SemanticChunker(130, 0).chunk("doc", text)
    assert not any(chunk.text.endswith(question) for chunk in chunks)


def test_rows_behind_the_chunk_with_the_head_of_their_table_know_its_columns() -> None:
    rows = "".join(f"| P-{number} | {number} EUR |\n" for number in range(40))
    text = f"# Parts\n\nAll of them.\n\n| Part | Price \\| net |\n|---|:-:|\n{rows}\nEnd.\n\n| a | b |\n"
    chunks = MarkdownChunker(60, 0).chunk("doc-1", text)
    named = [chunk for chunk in chunks if chunk.columns]
    assert {chunk.columns for chunk in named} == {("Part", "Price | net")}
    assert all(chunk.text.startswith("| P-") for chunk in named)
    assert [chunk for chunk in chunks if chunk.text.startswith("| P-")] == named


def test_columns_of_each_table_are_its_own() -> None:
    text = (
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n| c |\n|---|\n| 3 |\n\n| 4 |\n\n| | |\n|---|---|\n| 5 | 6 |\n\n"
        "| d | e |\n|---|---|\n| 7 | 8 |\n# Next\n| 9 | 0 |\n## Last\n| f | g |\n|---|---|\n| x | y |\n"
    )
    paths = HeadingPaths(text)
    found = {row: paths.columns_at(text.index(row)) for row in ("| 1", "| 3", "| 4", "| 5", "| 7", "| 9", "| x")}
    none = dict.fromkeys(("| 4", "| 5", "| 9"), ())
    assert found == none | {"| 1": ("a", "b"), "| 3": ("c",), "| 7": ("d", "e"), "| x": ("f", "g")}
    # In any order.
    assert paths.columns_at(text.index("| 1")) == ("a", "b")
    # What is no row, or only the end of one, stands under no columns.
    assert not any(paths.columns_at(text.index(place)) for place in ("| a", "|---|---|", "| c", "| 2 |", "|\n\n| c"))
