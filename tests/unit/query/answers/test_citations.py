from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.ids import document_id
from heliograph.models import Chunk, Document
from heliograph.query.answers.answer import quote_answer
from heliograph.query.answers.citations import ground_answer, page_of
from heliograph.query.answers.models import AnswerKind
from heliograph.query.models import Context, QueryParam, Reference, RetrievedChunk
from heliograph.stores.changeset import Changeset
from heliograph.testing.fakes import FakeChatModel
from tests.memory_store import MemoryStore

from ..world import World

TEXT = "The sea is wide.\n\n- Anna Berg repaired\n  the lighthouse lens in 1921. It shone far."
QUESTION = "What is this passage?"
NAIVE = QueryParam(mode="naive")

REFUSALS = [
    "The passages do not mention it.",
    "文档中没有提到这一点。",
    "I don't know.",
    "I do not know based on the provided context.",
    "The provided context does not contain information about the launch date.",
    "There is no information about the launch date in the provided documents.",
    "The launch date is not mentioned in the given passages.",
    "I'm sorry, but I cannot answer this question.",
    "I am sorry. The documents don't say who wrote it.",
    "Unfortunately, the context doesn't provide that detail.",
    "Based on the provided context, there is no mention of a warranty in the documents.",
    "None of the documents mention a warranty.",
    "The context contains no information about warranties.",
    "I could not find any information about this.",
    "No information about the warranty was found.",
    "This question cannot be answered from the passages.",
    "I'm unable to provide an answer from the sources.",
    "Nothing in the passages says who built it.",
    "The text does not specify a date.",
    "The sources are silent on this.",
    "It isn't stated in the text.",
    "根据提供的资料，无法回答这个问题。",
    "抱歉，我无法回答该问题。",
    "提供的文档没有包含相关信息。",
    "没有找到与保修相关的信息。",
    "上下文中未提及发布日期。",
    "我不知道。",
    "The knowledge base does not hold an answer to that.",
    "From the passages it is not clear who wrote the text. It is not given in the passages.",
    "I was not able to find it.",
    "Die Dokumente enthalten keine Informationen über die Garantie.",
    "Leider wird das in den Quellen nicht erwähnt.",
    "Das kann ich anhand der Dokumente nicht beantworten.",
    "In den Texten steht dazu nichts.",
    "Ich weiß es nicht.",
]

STATEMENTS = [
    "MQTT itself does not encrypt the text of a message.",
    "The parser does not read documents larger than 10 MB.",
    "Users do not know the private key.",
    "The gateway cannot answer requests while it restarts.",
    "Go's context does not support resuming a cancelled request.",
    "The indexer has no text mode.",
    "Markdown documents have no page numbers.",
    "A chunk does not cross documents.",
    "It does not modify the source documents.",
    "The server is unable to answer when the disk is full.",
    "The compiler cannot find sources outside of the project.",
    "Nothing is deleted from the documents folder.",
    "The text of the licence is not translated.",
    "Passwords are not stored in plain text.",
    "Binary files are not shown as text.",
    "The document store does not use locks.",
    "The sensor doesn't work without a battery.",
    "The text encoder ignores case, and the sources do not matter.",
    "MQTT 本身不加密消息内容。",
    "网关未包含加密模块。",
    "该协议没有提供认证信息以外的功能。",
    "服务器无法确定客户端的位置。",
    "设备不能访问知识库以外的内容。",
    "The service is not mentioned. Its port is 80.",
    "Attachments do not contain text layers.",
    "No text is sent to the sources.",
    "MQTT is a protocol. The documents do not mention its author.",
    "The API does not contain passages longer than 512 tokens.",
    "It is not included in the text index.",
    "Deleted documents are not available in search.",
    "The editor does not mention text size in its menu.",
    "MQTT verschlüsselt die Nachrichten nicht.",
    "Der Parser liest keine Dokumente über 10 MB.",
    "Der Text der Lizenz wird nicht übersetzt.",
    "Der Server kann das Dokument nicht öffnen.",
]


def _context(text: str, *spans: tuple[int, int]) -> Context:
    chunks = tuple(
        RetrievedChunk(
            Chunk(f"chunk-{start}", "doc-1", 0, text[start:end], 9, start, end, ("Top",), 1), "a.md", "1", ()
        )
        for start, end in spans
    )
    return Context("text", chunks=chunks, references=(Reference("1", "a.md", len(chunks)),))


async def _store(text: str) -> MemoryStore:
    store = MemoryStore()
    document = Document("doc-1", "a.md", "Lights", length=len(text), page_starts=(0, 18))
    await store.apply(Changeset(documents=(document,), document_texts={"doc-1": text}))
    return store


def test_sentence_is_matched_with_what_it_rests_on() -> None:
    context = _context(TEXT, (0, len(TEXT)))
    document = Document("doc-1", "a.md", page_starts=(0, 18))
    text = "The lens was repaired in 1921 [1]. It cost much [1]. Nobody knows."
    found = ground_answer(text, context, {"doc-1": document})
    (citation,) = found.citations
    assert TEXT[citation.start : citation.end] == citation.quote
    assert citation.quote.endswith("lens in 1921.")
    assert (citation.page, citation.headings, citation.reference_id) == (2, ("Top",), "1")
    assert text[citation.answer_start : citation.answer_end] == "The lens was repaired in 1921 [1]."
    assert found.unsupported == 2


SECTIONS = """Built in 1871.

## Harbour

Boats land here, as the harbour is deep.

### Cranes

The crane lifts nine tons.

```sh
# Not a heading
```

Lighthouse
----------

The lens turns once a minute.
"""


@pytest.mark.parametrize(
    ("asked", "headings"),
    [
        ("When was it built?", ()),
        ("Where do boats land?", ("Harbour",)),
        ("How many tons does the crane lift?", ("Harbour", "Cranes")),
        ("How often does the lens turn?", ("Lighthouse",)),
    ],
)
async def test_headings_are_those_of_the_quote_in_both_kinds_of_answers(asked: str, headings: tuple[str, ...]) -> None:
    world = World()
    await world.chunk("p", SECTIONS, score=0.9)
    changes = Changeset(document_texts={document_id("a.md"): SECTIONS})
    await world.store.apply(changes)
    quoted = (await world.engine().query(asked, NAIVE)).citations[0]
    reply = f"{quoted.quote.strip()[:-1]} [1]."
    written = (await world.engine(FakeChatModel(reply)).query(asked, NAIVE)).citations[0]
    assert quoted.headings == written.headings == headings
    assert quoted.quote == written.quote == SECTIONS[quoted.start : quoted.end]


async def test_headings_are_those_of_the_chunk_where_the_text_is_not_known() -> None:
    world = World()
    await world.chunk("p", SECTIONS, score=0.9, headings=("Top",))
    for text in (None, "It is another text by now. " * 40):
        if text is not None:
            await world.store.apply(Changeset(document_texts={document_id("a.md"): text}))
        answer = await world.engine().query("How often does the lens turn?", NAIVE)
        assert answer.citations[0].headings == ("Top",)


def test_citation_behind_the_full_stop_belongs_to_its_sentence() -> None:
    found = ground_answer("The sea is wide. [1] 灯塔。[1]", _context(TEXT, (0, len(TEXT))))
    assert [citation.quote for citation in found.citations] == ["The sea is wide."]
    assert found.unsupported == 1


def test_headings_code_and_lead_ins_need_no_support() -> None:
    text = "# Lens\n\nThe steps are:\n\n```\nlens = 1\n```\n"
    assert ground_answer(text, _context(TEXT, (0, 16))).unsupported == 0


def test_page_is_that_of_the_first_character() -> None:
    document = Document("d", "a.pdf", page_starts=(0, 10, 20))
    assert [page_of(document, start, None) for start in (0, 9, 10, 25)] == [1, 1, 2, 3]
    assert page_of(None, 9, 7) == page_of(replace(document, page_starts=()), 9, 7) == 7


async def test_sentence_that_a_chunk_cuts_is_completed_from_the_document() -> None:
    cut = TEXT.index("the lighthouse")
    found = await quote_answer(
        "Who repaired the lighthouse lens?", _context(TEXT, (cut, len(TEXT))), (await _store(TEXT)).records
    )
    first = found.citations[0]
    assert TEXT[first.start : first.end] == first.quote
    assert "Anna Berg repaired\n  the lighthouse lens in 1921." in first.quote
    assert "- Anna Berg repaired the lighthouse lens in 1921. [1]" in found.text
    assert first.page == 2


@given(
    st.lists(
        st.sampled_from(
            [
                "The lens is old. ",
                "Berg repaired it.\n",
                "\n\n",
                "- lens, ",
                "| lens | row |\n",
                "```\n",
                "透镜很旧。",
                "# Lens\n",
            ]
        ),
        min_size=1,
        max_size=14,
    ),
    st.data(),
)
async def test_quotes_are_the_characters_of_the_document(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts)
    start = data.draw(st.integers(0, len(text) - 1))
    end = data.draw(st.integers(start + 1, len(text)))
    found = await quote_answer("Is the lens old? 透镜", _context(text, (start, end)), (await _store(text)).records)
    for citation in found.citations:
        assert text[citation.start : citation.end] == citation.quote
        shown = found.text[citation.answer_start : citation.answer_end]
        assert shown
        assert "\n" not in shown


async def test_unknown_references_are_dropped_counted_and_told(world: World) -> None:
    await world.chunk("p", score=0.9)
    chat = FakeChatModel("This is passage p [1, 9]. It flies【8】.\n\n## References\n- [9] x.md", piece_characters=1)
    engine = world.engine(chat)
    answer = await engine.query(QUESTION, NAIVE)
    assert answer.text == "This is passage p [1]. It flies.\n\n### References\n\n- [1] a.md"
    assert (answer.unsupported_references, answer.unsupported_sentences) == (2, 1)
    assert [citation.quote for citation in answer.citations] == ["This is passage p."]
    assert any("2 citations" in warning for warning in answer.warnings)
    assert any("1 sentence" in warning for warning in answer.warnings)
    streamed = await (await engine.stream(QUESTION, NAIVE)).collect()
    assert (streamed.text, streamed.citations) == (answer.text, answer.citations)
    payload = answer.payload(QueryParam(mode="naive", return_structured=True))
    assert isinstance(payload, dict)
    assert payload["citations"][0]["document_id"] == answer.citations[0].document_id


async def test_model_that_finds_no_answer_is_understood(world: World) -> None:
    await world.chunk("p", score=0.9)
    for reply in ("Nobody says. [no-answer]", "The passages do not mention it.", "文档中没有提到这一点。"):
        answer = await world.engine(FakeChatModel(reply)).query(QUESTION, QueryParam(mode="naive", user_prompt=reply))
        assert answer.is_unanswered
        assert answer.kind is AnswerKind.GENERATED
        assert not answer.warnings
        assert "no-answer" not in answer.text
    assert not (await world.engine(FakeChatModel("It is not p [1].")).query(QUESTION, NAIVE)).is_unanswered


@pytest.mark.parametrize("reply", REFUSALS)
async def test_refusal_in_plain_words_is_understood(reply: str, world: World) -> None:
    await world.chunk("p", score=0.9)
    answer = await world.engine(FakeChatModel(reply)).query(QUESTION, QueryParam(mode="naive", user_prompt=reply))
    assert answer.is_unanswered
    assert not answer.warnings


@pytest.mark.parametrize("reply", STATEMENTS)
async def test_statement_that_denies_something_is_no_refusal(reply: str, world: World) -> None:
    await world.chunk("p", score=0.9)
    answer = await world.engine(FakeChatModel(reply)).query(QUESTION, QueryParam(mode="naive", user_prompt=reply))
    assert not answer.is_unanswered
    # It cites nothing, and that is told.
    assert answer.unsupported_sentences >= 1


async def test_text_after_a_prompt_of_the_caller_stays_as_written(world: World) -> None:
    await world.chunk("p", score=0.9)
    reply = "p [1, 9]\n\n## References\n- [9] x"
    answer = await world.engine(FakeChatModel(reply)).query(QUESTION, QueryParam(mode="naive", system_prompt="Speak."))
    assert answer.text == reply
    assert (answer.unsupported_references, answer.warnings) == (0, ())


async def test_question_that_no_sentence_speaks_of_is_not_answered(world: World) -> None:
    await world.chunk("p", score=0.9)
    world.embedding.document_axis = 1
    answer = await world.engine().query("How tall grows the giant redwood of California?", NAIVE)
    assert (answer.kind, answer.is_unanswered) == (AnswerKind.NOTHING_FOUND, True)
    assert not answer.citations
