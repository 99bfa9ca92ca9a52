from __future__ import annotations

import io
import json

import pytest
from rich.console import Console, RenderableType

from heliograph.chat.base import Purpose
from heliograph.cli.query import render_references, without_references
from heliograph.errors import ModelTimeout
from heliograph.models import Mode
from heliograph.query.models import Reference
from heliograph.testing.fakes import FakeChatModel

from .conftest import World

QUESTION = "Who wound the clock of Gannet Head?"


def chat() -> FakeChatModel:
    keywords = '{"high_level_keywords": ["clock"], "low_level_keywords": ["Gannet Head"]}'
    answer = "Tobias Fenn wound it [1].\n\n### References\n\n- [1] docs/story.md"
    return FakeChatModel({Purpose.KEYWORDS: keywords, Purpose.ANSWER: answer})


def test_query_quotes_and_cites_without_a_chat_model(story: World) -> None:
    result = story.run("query", QUESTION)
    assert result.exit_code == 0
    assert "Tobias Fenn wound the clock of Gannet Head every Sunday." in result.stdout
    assert "no chat model is configured" in result.stdout
    assert "docs/story.md" in result.stdout
    assert "extractive" in result.stderr
    assert "### References" not in result.stdout


@pytest.mark.parametrize("mode", [mode for mode in Mode if mode is not Mode.BYPASS])
def test_query_works_in_every_mode(story: World, mode: Mode) -> None:
    result = story.run("query", QUESTION, "--mode", mode.value)
    assert result.exit_code == 0
    assert f"mode {mode.value}" in result.stderr


def test_query_prints_what_a_chat_model_wrote_and_the_documents_it_cites(story: World) -> None:
    story.chat = chat()
    result = story.run("query", QUESTION)
    assert result.stdout.startswith("Tobias Fenn wound it [1].\n")
    assert "[1]   docs/" in result.stdout
    assert "written by the chat model" in result.stderr
    assert "from the cache" in story.run("query", QUESTION).stderr


def test_query_streams(story: World) -> None:
    story.chat = chat()
    result = story.run("query", QUESTION, "--stream")
    assert result.exit_code == 0
    assert result.stdout.startswith("Tobias Fenn wound it [1].\n")
    assert result.stdout.count("References") == 1


def test_query_streams_without_a_chat_model_too(story: World) -> None:
    assert "every Sunday" in story.run("query", QUESTION, "--stream").stdout


def test_query_json_is_everything(story: World) -> None:
    payload = story.json("query", QUESTION, "--mode", "hybrid")
    assert payload["kind"] == "extractive"
    assert payload["mode"] == "hybrid"
    assert {"answer", "entities", "relationships", "chunks", "references", "metadata"} <= payload.keys()


def test_query_json_has_nothing_else_on_standard_output(story: World) -> None:
    json.loads(story.run("query", QUESTION, "--json", "--show", "all").stdout)
    assert story.run("query", QUESTION, "--json", "--stream").exit_code == 2


def test_query_passes_its_options_on(story: World) -> None:
    story.chat = chat()
    story.run(
        *("query", QUESTION, "--mode", "mix", "--hl", "light house", "--hl", "time", "--ll", "Tobias Fenn"),
        *("--response-type", "One Word", "--user-prompt", "Be brief.", "--top-k", "3", "--chunk-top-k", "1"),
    )
    request = story.chat.requests[-1]
    assert [item.purpose for item in story.chat.requests] == [Purpose.ANSWER]
    assert "One Word" in request.messages[0].content
    assert "Be brief." in request.messages[0].content


@pytest.mark.parametrize(
    ("option", "budgeted"),
    [("--max-entity-tokens", "entities"), ("--max-relation-tokens", "relationships"), ("--max-total-tokens", "chunks")],
)
def test_query_keeps_to_budgets(story: World, option: str, budgeted: str) -> None:
    def kept(*budget: str) -> int:
        return len(
            story.json("query", QUESTION, "--mode", "mix", "--ll", "Tobias Fenn", "--hl", "light", *budget)[budgeted]
        )

    assert kept(option, "1") < kept()


def test_query_prints_context_or_prompt_and_asks_no_model_for_an_answer(story: World) -> None:
    story.chat = chat()
    context = story.run("query", QUESTION, "--context-only").stdout
    prompt = story.run("query", QUESTION, "--prompt-only").stdout
    assert "Tobias Fenn" in context
    assert len(prompt) > len(context)
    assert all(item.purpose is Purpose.KEYWORDS for item in story.chat.requests)


@pytest.mark.parametrize("width", [80, 200])
def test_query_shows_tables_on_request(story: World, width: int) -> None:
    result = story.run("query", QUESTION, "--show", "all", width=width)
    for title in ("References", "Entities", "Relations", "Chunks"):
        assert title in result.stdout
    plain = story.run("query", QUESTION).stdout
    assert "Entities" not in plain


def test_query_reads_its_question_from_standard_input(story: World) -> None:
    result = story.run("query", "-", input=f"{QUESTION}\n".encode())
    assert "every Sunday" in result.stdout


def test_query_in_chinese(story: World) -> None:
    assert "望江钟由沈万年铸造" in story.run("query", "望江钟由谁铸造？", "--mode", "naive").stdout


def test_query_refuses_what_cannot_be_asked(story: World) -> None:
    for args in (("",), ("why?", "--top-k", "0"), ("why?", "--top-k", "1000000000"), ("why?", "--mode", "bypass")):
        result = story.run("query", *args)
        assert result.exit_code == 2
        assert result.stderr.startswith("error: ")
        assert result.stdout == ""


def test_query_says_when_a_model_fails(story: World) -> None:
    story.embedding.fail_next(ModelTimeout("no reply within 60 s"))
    result = story.run("query", QUESTION)
    assert result.exit_code == 5
    assert result.stderr == "error: no reply within 60 s\n"


def test_query_stream_that_breaks_off_ends_its_line(story: World) -> None:
    story.chat = FakeChatModel("Tobias Fenn wound it.", cut_stream_after=1)
    result = story.run("query", QUESTION, "--stream", "--mode", "naive")
    assert result.exit_code == 5
    assert result.stdout == "Tobias F\n"
    assert "broke off" in result.stderr


def test_query_warnings_go_to_standard_error(story: World) -> None:
    result = story.run("query", QUESTION, "--mode", "global", "--ll", "Gannet Head")
    assert "warning: " in result.stderr
    assert "warning" not in result.stdout


def test_without_references_cuts_only_a_list_at_the_end() -> None:
    assert without_references("It is [1].\n\n### References\n\n- [1] a.md") == "It is [1]."
    assert without_references("References are good.") == "References are good."
    assert without_references("### References\n- [1] a.md") == "### References\n- [1] a.md"
    assert without_references("是[1]。\n\n## 参考资料\n- [1] a.md") == "是[1]。"


def test_render_references_shows_the_cited_ones_and_counts_the_rest() -> None:
    references = [Reference(str(number), f"{number}.md", number) for number in (1, 2, 3)]
    assert "2 more sources" in _text(render_references(references, "So it is [2]."))
    assert "more" not in _text(render_references(references, "So it is."))
    assert "more" not in _text(render_references(references, "So it is [2].", shows_all=True))


def _text(renderable: RenderableType) -> str:
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()
