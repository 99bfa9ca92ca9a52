from __future__ import annotations

from dataclasses import replace

import pytest

from heliograph.models import Chunk
from heliograph.query.answers import sentence_ranking as comparison
from heliograph.query.answers.extractive import ExtractiveAnswer, nothing_found, quote_answer
from heliograph.query.models import AnswerKind, Context, Failure, Mode, QueryParam, Reference, Retrieval, RetrievedChunk
from heliograph.testing.memory_store import MemoryStore

from ..world import World


def _context(*texts: str) -> Context:
    chunks = tuple(
        RetrievedChunk(Chunk(f"chunk-{number}", "doc", 0, text, 9, 0, len(text)), f"{number}.md", str(number), ())
        for number, text in enumerate(texts, start=1)
    )
    return Context("text", chunks=chunks, references=tuple(Reference(c.reference_id, c.source, 1) for c in chunks))


async def _quoted(question: str, context: Context) -> ExtractiveAnswer:
    return await quote_answer(question, context, MemoryStore().records)


async def test_best_sentence_comes_first_with_its_document() -> None:
    context = _context(
        "The sea is wide. Boats come and go.",
        "# The lighthouse\n\nAnna Berg repaired the lighthouse lens in 1921. The sea was calm.",
    )
    lines = (await _quoted("Who repaired the lighthouse lens?", context)).text.splitlines()
    assert lines[0].startswith("Sentences quoted from the documents")
    assert lines[2] == "- Anna Berg repaired the lighthouse lens in 1921. [2]"
    assert lines[-3:] == ["### References", "", "- [2] 2.md"]
    assert not any("# The lighthouse" in line for line in lines)


async def test_rare_terms_weigh_more_than_common_ones() -> None:
    context = _context("The lamp burns oil.", "The lamp shines far.", "The lamp has a Fresnel lens.")
    lines = (await _quoted("What lamp has a Fresnel lens?", context)).text.splitlines()
    assert lines[2] == "- The lamp has a Fresnel lens. [3]"


async def test_at_most_five_sentences_each_once() -> None:
    context = _context(*(" ".join(f"Lens number {number} is clear." for number in range(9)) for _ in range(2)))
    quotes = [
        line for line in (await _quoted("Which lens is clear?", context)).text.splitlines() if line.startswith("- L")
    ]
    assert len(quotes) == len(set(quotes)) == 5


async def test_question_without_content_quotes_the_best_ranked_chunk() -> None:
    lines = (await _quoted("What is it?", _context("First things first.", "Second thoughts."))).text.splitlines()
    assert lines[2] == "- First things first. [1]"


async def test_question_that_nothing_speaks_of_is_not_answered() -> None:
    assert await _quoted("How tall is a redwood?", _context("First things first.")) == ExtractiveAnswer()
    # Words of another language say nothing about what a chunk speaks of.
    assert (await _quoted("红杉树有多高？", _context("First things first."))).citations


async def test_near_chunk_needs_to_share_fewer_words_and_a_far_one_more() -> None:
    plain = _context("The tallest redwood stands in California.", "Oaks.", "Elms.", "Ashes.")
    question = "Which redwood park did Ada and Bob visit?"

    def at(cosine: float) -> Context:
        return replace(plain, chunks=tuple(replace(item, scores={"vector": cosine}) for item in plain.chunks))

    assert (await _quoted(question, at(0.8))).citations
    assert await _quoted(question, at(0.1)) == ExtractiveAnswer()


async def test_chinese_question_is_labelled_in_chinese() -> None:
    text = (await _quoted("灯塔的透镜是谁修的？", _context("灯塔的透镜由安娜修好。大海很宽。"))).text
    assert text.startswith("以下内容摘自文档原文")
    assert "- 灯塔的透镜由安娜修好。 [1]" in text


async def test_sentence_in_the_script_of_the_question_is_preferred() -> None:
    context = _context("- 网关使用 MQTT 与 QoS 1 通信。", "- The gateway uses QoS 1 over MQTT.")
    assert (await _quoted("Which QoS does MQTT use?", context)).text.splitlines()[2].endswith("over MQTT. [2]")
    quotes = (await _quoted("网关用什么 MQTT QoS？", context)).text.splitlines()
    assert quotes[2] == "- 网关使用 MQTT 与 QoS 1 通信。 [1]"


async def test_long_sentence_is_cut_and_line_breaks_are_folded() -> None:
    text = await _quoted("lens", _context("The lens " + "is very\nclear and " * 200))
    quote = text.text.splitlines()[2]
    assert len(quote) < 620
    assert quote.endswith(" … [1]")


async def test_no_chunks_give_no_answer() -> None:
    assert await _quoted("Who?", Context("text")) == ExtractiveAnswer()


def test_nothing_found_says_why_in_the_language_of_the_question() -> None:
    assert "Nothing was found" in nothing_found(Retrieval("Who is it?", Mode.MIX, failure=Failure.NO_RESULTS))
    assert "没有找到" in nothing_found(Retrieval("这是谁的灯塔？", Mode.MIX, failure=Failure.NO_RESULTS))
    assert "keywords" in nothing_found(Retrieval("Who is it?", Mode.MIX, failure=Failure.NO_KEYWORDS))
    assert "max_total_tokens" in nothing_found(Retrieval("Who is it?", Mode.MIX, failure=Failure.EMPTY_CONTEXT))


async def test_what_leads_in_to_a_list_or_a_table_counts_for_what_stands_below() -> None:
    context = _context(
        "The lamp room holds these tools:\n\n- a brass wrench\n- a linen cloth\n\nNothing else is kept there.",
        "| lighthouse | height |\n|---|---|\n| Skerry | 48 m |\n| Mull | 12 m |",
    )
    tools = (await _quoted("Which tools does the lamp room hold?", context)).text
    assert "- a brass wrench [1]" in tools
    assert "- a linen cloth [1]" in tools
    assert "these tools:" not in tools
    height = (await _quoted("What is the height of the lighthouse Skerry?", context)).text.splitlines()
    assert height[2] == "- | Skerry | 48 m | [2]"
    assert not any("| height |" in line for line in height)


async def test_what_mode_auto_understood_is_not_found_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.chunk("p", text="The lens of the lighthouse was repaired by Anna Weber.", score=0.9)

    def fail(question: str) -> tuple[str, ...]:
        raise AssertionError(question)

    monkeypatch.setattr(comparison, "sides_by_rules", fail)
    answer = await world.engine().query("Who repaired the lens or the lighthouse in Mandal?", QueryParam(mode="auto"))
    assert answer.kind is AnswerKind.EXTRACTIVE
    assert "Anna Weber" in answer.text
