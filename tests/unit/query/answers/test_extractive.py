from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from heliograph.embedding.base import USUAL_SCALE, EmbeddingInfo, EmbeddingKind, EmbeddingModel, Embeddings
from heliograph.models import Chunk, Mode, Usage
from heliograph.query.answers import answer as extractive
from heliograph.query.answers import sentence_ranking as comparison
from heliograph.query.answers.answer import ExtractiveAnswer, nothing_found, quote_answer
from heliograph.query.answers.models import AnswerKind
from heliograph.query.models import Context, Failure, QueryParam, Reference, Retrieval, RetrievedChunk
from tests.memory_store import MemoryStore

from ..world import World


def _context(*texts: str) -> Context:
    chunks = tuple(
        RetrievedChunk(Chunk(f"chunk-{number}", "doc", 0, text, 9, 0, len(text)), f"{number}.md", str(number), ())
        for number, text in enumerate(texts, start=1)
    )
    return Context("text", chunks=chunks, references=tuple(Reference(c.reference_id, c.source, 1) for c in chunks))


async def _quoted(question: str, context: Context) -> ExtractiveAnswer:
    return await quote_answer(question, context, MemoryStore().records)


@pytest.mark.parametrize(
    "question",
    ["How tall is a redwood?", "红杉有多高？", "Wie hoch wird ein Mammutbaum?", "Quelle est la hauteur du séquoia ?"],
)
async def test_question_that_nothing_is_near_to_is_declined_in_any_language(question: str) -> None:
    context = _context("The keeper lives in a cottage on the cliff.", "灯塔看守人住在悬崖上的小屋里。")
    records = MemoryStore().records
    assert (await quote_answer(question, context, records, embedding=_Meanings("redwood"))) == ExtractiveAnswer()
    assert (await quote_answer(question, context, records, embedding=_Meanings("cottage"))).citations


class _Meanings(EmbeddingModel):
    """Finds every question near to texts that hold one word, and far from others."""

    def __init__(self, word: str) -> None:
        self._word = word

    @property
    def info(self) -> EmbeddingInfo:
        return EmbeddingInfo("meanings", 2, 512, scale=USUAL_SCALE)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        rows = [(1.0, 0.0) if kind == "query" or self._word in text else (0.0, 1.0) for text in texts]
        return Embeddings(np.array(rows, np.float32), Usage())


class _Near(_Meanings):
    """Finds every text as near to every question as it is told."""

    def __init__(self, cosine: float) -> None:
        super().__init__("")
        self._cosine = cosine

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        row = (1.0, 0.0) if kind == "query" else (self._cosine, (1 - self._cosine**2) ** 0.5)
        return Embeddings(np.array([row] * len(texts), np.float32), Usage())


@pytest.mark.parametrize(
    ("question", "cosine", "is_answered"),
    [
        ("How deep is the harbour of the island?", 0.60, True),
        ("How deep is the harbour of the island?", 0.25, False),
        # The less of its words one sentence holds, the nearer it must be.
        ("How deep is the harbour of the island?", 0.37, True),
        ("How many quays and cranes has the harbour?", 0.37, False),
        # Less is enough where every word stands in what was found.
        ("Has the place of the island a harbour?", 0.47, True),
        # In another language than the documents' meaning decides, and the words that the glossary knows.
        ("Wie tief ist der Hafen der Insel?", 0.40, True),
        ("Wie tief ist der Hafen der Insel?", 0.35, False),
        ("海港有多深？", 0.40, True),
        ("海港有多深？", 0.30, False),
        # A name that nothing speaks of.
        ("How deep is the harbour of Lisbon?", 0.60, False),
        ("How deep is the harbour of Port Ellen?", 0.60, True),
        ("Lisbon 的海港有多深？", 0.40, False),
    ],
)
async def test_nearness_that_an_answer_needs(question: str, cosine: float, is_answered: bool) -> None:
    context = _context("Port Ellen is an old place. The harbour of the island has nine metres at low tide.")
    found = await quote_answer(question, context, MemoryStore().records, embedding=_Near(cosine))
    assert bool(found.citations) is is_answered


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("队列中的邮件默认保留多久？", "Mail stays in the queue for 5 days by default."),
        ("Wie lange bleibt eine Nachricht in der Warteschlange?", "Mail stays in the queue for 5 days by default."),
        ("How many megabytes may an attachment have?", "附件最大为 20 MB。"),
    ],
)
async def test_sentence_that_says_the_question_in_another_language_comes_first(question: str, told: str) -> None:
    others = ("The keeper sails for 3 days.", "Boats come every 2 days, at 20 past.", "看守人有 3 条船。")
    for place in range(len(others) + 1):
        context = _context(*others[:place], told, *others[place:])
        answer = await quote_answer(question, context, MemoryStore().records, embedding=_Near(0.5))
        assert answer.citations[0].quote == told


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


@pytest.mark.parametrize(
    ("question", "label"),
    [
        ("Qui a réparé la lentille du phare en 1921 ?", "Phrases citées des documents"),
        ("¿Quién reparó la lente del faro en el año 1921?", "Frases citadas de los documentos"),
        ("Кто починил линзу маяка в 1921 году?", "Предложения из документов"),
        ("灯台のレンズを1921年に修理したのは誰ですか？", "文書から引用した文です"),
        ("1921년에 등대의 렌즈를 수리한 사람은 누구입니까?", "문서에서 인용한 문장입니다"),
        ("Kto naprawił soczewkę latarni w 1921 roku?", "Zdania przytoczone z dokumentów"),
        ("من أصلح عدسة المنارة في عام 1921؟", "Sentences quoted"),
    ],
)
async def test_an_answer_says_in_the_language_of_the_question_that_it_is_quoted(question: str, label: str) -> None:
    found = await quote_answer(
        question, _context("Anna Berg 1921: lens."), MemoryStore().records, embedding=_Meanings("lens")
    )
    assert found.text.startswith(label)


def test_whatever_an_answer_says_itself_is_said_in_every_language() -> None:
    said = extractive._all_words()  # pyright: ignore[reportPrivateUsage]
    assert {*Failure} < said.keys()
    assert all(by_language.keys() == said["quoted"].keys() for by_language in said.values())


async def test_rare_terms_weigh_more_than_common_ones() -> None:
    context = _context("The lamp burns oil.", "The lamp shines far.", "The lamp has a Fresnel lens.")
    lines = (await _quoted("What lamp has a Fresnel lens?", context)).text.splitlines()
    assert lines[2] == "- The lamp has a Fresnel lens. [3]"


async def test_at_most_six_quotes_each_once() -> None:
    words = ("brass", "copper", "iron", "steel", "silver", "golden", "leaden", "wooden", "woollen")
    context = _context(*("\n\n".join(f"The {word} lens is clear of any {word}." for word in words) for _ in range(2)))
    quotes = [
        line for line in (await _quoted("Which lens is clear?", context)).text.splitlines() if line.startswith("- The")
    ]
    assert len(quotes) == len(set(quotes)) == 6


async def test_nothing_irrelevant_stands_behind_what_answers() -> None:
    context = _context(
        "The fresnel lens of Skerry was ground in Paris in 1854.\n\nThe lens room is dry.\n\nBoats come and go.",
        "Sheep graze on the island.",
    )
    text = (await _quoted("Where was the fresnel lens of Skerry ground?", context)).text
    assert "ground in Paris" in text
    assert "Boats" not in text
    assert "Sheep" not in text


async def test_sentences_side_by_side_are_one_quote() -> None:
    context = _context("The plain port of the broker is 1883. The safe port of the broker is 8883.")
    found = await _quoted("Which port has the broker?", context)
    assert "- The plain port of the broker is 1883. The safe port of the broker is 8883. [1]" in found.text
    assert len(found.citations) == 1


async def test_term_explained_below_is_said_before_the_quote() -> None:
    context = _context("--depth <depth>\n\nCreate a shallow clone.\n\n--bare\n\nMake a bare repository.")
    text = (await _quoted("Which option creates a shallow clone?", context)).text
    assert "- --depth <depth> — Create a shallow clone. [1]" in text


async def test_several_terms_share_what_stands_below_them() -> None:
    context = _context("-a\n\n--all\n\nTake every file.\n\n-s\n\n--sign\n\nMake a signed tag.")
    text = (await _quoted("Which option makes a signed tag?", context)).text
    assert "- -s, --sign — Make a signed tag. [1]" in text


async def test_default_of_a_term_is_told_with_what_the_term_means() -> None:
    context = _context("naptime\n\nThe delay between two runs. It is read at the start. The default is one minute.")
    text = (await _quoted("What is the default delay between runs?", context)).text
    assert "naptime: The delay between two runs. — The default is one minute. [1]" in text


async def test_sentence_that_points_back_in_its_middle_takes_in_the_one_before_it() -> None:
    context = _context("The code 125 means that nobody can tell. If the script exits with this code, it is skipped.")
    text = (await _quoted("With which code is a script skipped?", context)).text
    assert "- The code 125 means that nobody can tell. If the script exits with this code, it is skipped. [1]" in text


async def test_sentence_that_points_back_takes_in_the_one_before_it() -> None:
    context = _context(
        "Retention applies to all messages. It ends after 14 days of storage.\n\nMore is said elsewhere."
    )
    text = (await _quoted("After how many days of storage does it end?", context)).text
    assert "- Retention applies to all messages. It ends after 14 days of storage. [1]" in text


async def test_same_rule_is_quoted_with_the_rule() -> None:
    context = _context(
        "## Certificates\n\n- A batch of up to 50 devices is approved by the duty engineer.\n"
        "- Gateway renewals follow the same rule, counted separately.\n"
    )
    text = (await _quoted("Who approves gateway renewals?", context)).text
    assert "approved by the duty engineer. Gateway renewals follow the same rule" in text


async def test_code_is_quoted_as_code_with_what_leads_in_to_it() -> None:
    context = _context("Hard links are made by this command:\n\n```\nln target link\n```\n\nThe sea is wide.")
    text = (await _quoted("Which command makes hard links to a target?", context)).text
    assert "- Hard links are made by this command: `ln target link` [1]" in text


async def test_table_of_keys_and_values_has_no_header() -> None:
    context = _context("| Status: | Extension |\n| --- | --- |\n| Source file: | mod_ratelimit.c |")
    text = (await _quoted("What is the source file?", context)).text
    assert "Source file: mod_ratelimit.c [1]" in text


async def test_question_of_two_parts_is_answered_part_by_part() -> None:
    context = _context("The bell was cast in 1887.", "Three strokes mean flood. The sea is wide.", "Sheep graze.")
    found = await _quoted("When was the bell cast, and what do three strokes mean?", context)
    first, _, second = found.text.partition("**What do three strokes mean?**")
    assert "**When was the bell cast?**\n\n- The bell was cast in 1887. [1]" in first
    assert second.lstrip().startswith("- Three strokes mean flood. [2]")
    assert [found.text[item.answer_start : item.answer_end] for item in found.citations] == [
        "The bell was cast in 1887.",
        "Three strokes mean flood.",
    ]


@pytest.mark.parametrize(
    ("question", "texts"),
    [
        (
            "Which command edits the quota? Which command creates an account?",
            (
                "`shrink` is the command that edits the quota of an account.",
                "`make` is the command that creates an account.",
            ),
        ),
        (
            "编辑配额用什么命令？创建账号用什么命令？",
            ("用命令 `shrink` 编辑账号的配额。", "用命令 `make` 创建账号。"),
        ),
        (
            "Mit welchem Befehl ändert man die Quote? Mit welchem Befehl legt man ein Konto an?",
            ("Der Befehl `shrink` ändert die Quote an einem Konto.", "Der Befehl `make` legt ein Konto an."),
        ),
    ],
)
async def test_what_answers_one_part_is_no_further_quote_of_another(question: str, texts: tuple[str, ...]) -> None:
    text = (await _quoted(question, _context(*texts))).text
    parts = text.partition("### References")[0].split("\n**")[1:]
    assert len(parts) == 2
    assert ["shrink" in part for part in parts] == [True, False]
    assert ["make" in part for part in parts] == [False, True]


async def test_part_that_nothing_answers_says_so() -> None:
    context = _context("The bell was cast in 1887.", "Sheep graze on the island.")
    text = (await _quoted("When was the bell cast, and how tall is a redwood?", context)).text
    assert text.count("say nothing that answers this question") == 1


async def test_meaning_finds_what_shares_no_word() -> None:
    context = _context("Boats come and go at noon.", "The keeper lives in a cottage on the cliff.")
    chosen = await quote_answer(
        "Wo wohnt der Leuchtturmwärter?", context, MemoryStore().records, embedding=_Meanings("cottage")
    )
    assert chosen.text.splitlines()[2].startswith("- The keeper lives in a cottage")


async def test_question_without_content_quotes_the_best_ranked_chunk() -> None:
    lines = (await _quoted("What is it?", _context("First things first.", "Second thoughts."))).text.splitlines()
    assert lines[2] == "- First things first. [1]"


@pytest.mark.parametrize("question", ["???", "？？？", "😀😀😀", "…—…"])
async def test_question_without_a_letter_is_not_answered(question: str) -> None:
    context = _context("The keeper lives in a cottage on the cliff.", "灯塔看守人住在悬崖上的小屋里。")
    assert await _quoted(question, context) == ExtractiveAnswer()
    records = MemoryStore().records
    assert await quote_answer(question, context, records, embedding=_Meanings("cottage")) == ExtractiveAnswer()


async def test_question_that_nothing_speaks_of_is_not_answered() -> None:
    assert await _quoted("How tall is a redwood?", _context("First things first.")) == ExtractiveAnswer()
    # Words of another language say nothing about what a chunk speaks of.
    assert (await _quoted("红杉树有多高？", _context("First things first."))).citations


@pytest.mark.parametrize(("cosine", "is_answered"), [(0.85, True), (0.1, False)])
async def test_nearness_of_the_chunk_counts_beside_that_of_the_sentence(cosine: float, is_answered: bool) -> None:
    plain = _context("The tallest redwood stands in California.", "Oaks.", "Elms.", "Ashes.")
    context = replace(plain, chunks=tuple(replace(item, scores={"vector": cosine}) for item in plain.chunks))
    question = "Which redwood park did Ada and Bob visit?"
    found = await quote_answer(question, context, MemoryStore().records, embedding=_Near(0.6))
    assert bool(found.citations) is is_answered


async def test_german_question_is_labelled_in_german() -> None:
    found = await _quoted("Wer hat die Linse des Leuchtturms repariert?", _context("Anna reparierte die Linse."))
    assert found.text.startswith("Sätze aus den Dokumenten")


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
    assert "- The lamp room holds these tools: a brass wrench [1]" in tools
    assert "- The lamp room holds these tools: a linen cloth [1]" in tools
    height = (await _quoted("What is the height of the lighthouse Skerry?", context)).text.splitlines()
    assert height[2] == "- lighthouse: Skerry; height: 48 m [2]"


async def test_what_mode_auto_understood_is_not_found_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.chunk("p", text="The lens of the lighthouse was repaired by Anna Weber.", score=0.9)

    def fail(question: str) -> tuple[str, ...]:
        raise AssertionError(question)

    monkeypatch.setattr(comparison, "sides_by_rules", fail)
    answer = await world.engine().query("Who repaired the lens or the lighthouse in Mandal?", QueryParam(mode="auto"))
    assert answer.kind is AnswerKind.EXTRACTIVE
    assert "Anna Weber" in answer.text
