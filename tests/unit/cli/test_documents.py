from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import Sequence

import pytest
from rich.console import Console

from heliograph.cli.documents import render_results
from heliograph.embedding.base import EmbeddingKind, Embeddings
from heliograph.errors import IngestError, ModelUnavailable
from heliograph.ids import document_id
from heliograph.ingest.models import DocumentResult, Outcome
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

from .conftest import CHINESE, STORY, World


def test_index_prints_outcomes_and_counts(world: World) -> None:
    world.write("docs/story.md", STORY)
    result = world.run("index", "docs")
    assert result.exit_code == 0
    assert "processed" in result.stdout
    assert "docs/story.md" in result.stdout
    assert "1 document: 1 processed; +" in result.stderr


def test_index_says_how_much_of_pages_it_left_out(world: World) -> None:
    for name in ("a", "b"):
        world.write(
            f"docs/{name}.html", f"<nav><a href=/>All parts</a></nav><p>The gateway {name} answers the broker.</p>"
        )
    result = world.run("index", "docs")
    assert result.exit_code == 0
    assert result.stdout.count("8 characters of menus and the like left out") == 2
    assert "; 16 characters of menus and the like left out; +" in result.stderr


def test_index_says_what_of_a_folder_nothing_reads(world: World) -> None:
    for name in ("story.md", "a.png", "b.png", "notes"):
        world.write(f"docs/{name}", STORY)
    result = world.run("index", "docs")
    assert result.exit_code == 0
    assert "passed over: 3 files of no known kind (.png 2, without an ending 1); name them" in result.stderr
    assert json.loads(world.run("index", "docs", "--json").stdout)["passed_over"] == {".png": 2, "": 1}


def test_index_again_changes_nothing(story: World) -> None:
    result = story.run("index", "docs")
    assert result.exit_code == 0
    assert "2 unchanged" in result.stderr


def test_index_reports_failures_with_reasons_and_fails(world: World) -> None:
    world.write("docs/story.md", STORY)
    world.write("docs/empty.md", "\n")
    result = world.run("index", "docs")
    assert result.exit_code == 1
    assert "failed" in result.stdout
    assert "is empty" in result.stdout
    assert "1 processed, 1 failed" in result.stderr


def test_index_json_has_one_result_a_document(world: World) -> None:
    world.write("docs/story.md", STORY)
    world.write("docs/empty.md", "\n")
    result = world.run("index", "docs", "--json")
    assert result.exit_code == 1
    results = {item["source"]: item for item in json.loads(result.stdout)["results"]}
    assert results["docs/story.md"]["outcome"] == "processed"
    assert results["docs/story.md"]["error"] is None
    assert "is empty" in results["docs/empty.md"]["error"]


def test_index_takes_the_others_in_where_one_path_is_missing(world: World) -> None:
    world.write("docs/story.md", STORY)
    result = world.run("index", "nowhere", "docs")
    assert result.exit_code == 1
    assert "check the path" in " ".join(result.stdout.split())
    assert "1 processed, 1 failed" in result.stderr


def test_index_of_a_missing_path_names_it(world: World) -> None:
    result = world.run("index", "nowhere")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "'nowhere'" in result.stderr
    assert result.stdout == ""


def test_index_keeps_metadata(world: World) -> None:
    world.write("a.md", STORY)
    world.run("index", "a.md", "--metadata", "team=iot", "--metadata", "note=a=b")
    metadata = world.json("document", "a.md")["metadata"]
    assert (metadata["team"], metadata["note"]) == ("iot", "a=b")


@pytest.mark.parametrize("pair", ["team", "=x", ""])
def test_index_refuses_metadata_without_a_key(world: World, pair: str) -> None:
    world.write("a.md", STORY)
    result = world.run("index", "a.md", "--metadata", pair)
    assert result.exit_code == 2
    assert "KEY=VALUE" in result.stderr


def test_index_reads_standard_input_under_a_name(world: World) -> None:
    result = world.run("index", "-", "--source", "piped.md", input=CHINESE.encode("gb18030"))
    assert result.exit_code == 0, result.output
    assert world.json("documents")["documents"][0]["title"] == "望江钟"


def test_index_of_standard_input_needs_a_name(world: World) -> None:
    assert world.run("index", "-", input="text").exit_code == 2
    assert world.run("index", "a.md", "--source", "b.md").exit_code == 2


def test_index_takes_files_and_standard_input_together(world: World) -> None:
    world.write("a.md", STORY)
    results = world.json("index", "a.md", "-", "--source", "b.md", input=CHINESE)["results"]
    assert [item["source"] for item in results] == ["a.md", "b.md"]


def test_index_says_how_to_go_on_when_a_model_is_out_of_reach(world: World) -> None:
    world.write("a.md", STORY)
    world.embedding.fail_next(ModelUnavailable("no such address"))
    result = world.run("index", "a.md")
    assert result.exit_code == 5
    assert "heliograph resume" in result.stderr
    assert "error: no such address" in result.stderr
    assert world.json("documents", "--status", "pending")["total"] == 1
    assert world.run("resume").exit_code == 0
    assert world.json("documents", "--status", "processed")["total"] == 1


class InterruptedModel(FakeEmbeddingModel):
    """Presses Ctrl-C when it is first asked for something, and then takes its time."""

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        if not self.calls:
            self.calls.append((kind, tuple(texts)))
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(60)
        return await super().embed(texts, kind)


def test_interrupted_index_says_how_to_go_on_and_loses_nothing(world: World) -> None:
    world.write("a.md", STORY)
    world.embedding = InterruptedModel()
    result = world.run("index", "a.md")
    assert result.exit_code == 130
    assert "the same command again goes on with the others, 'heliograph resume' only with those" in result.stderr
    assert result.stdout == ""
    assert world.json("documents", "--status", "pending")["total"] == 1
    assert world.run("resume").exit_code == 0
    assert world.json("documents", "--status", "processed")["total"] == 1


def test_index_counts_what_a_chat_model_spent(world: World) -> None:
    world.chat = FakeChatModel('{"entities": [{"name": "Nell", "type": "person", "description": "A reporter."}]}')
    world.write("a.md", STORY)
    assert "chat model" in world.run("index", "a.md").stderr


def test_index_quietly_prints_only_results(world: World) -> None:
    world.write("a.md", STORY)
    result = world.run("index", "a.md", "--quiet")
    assert result.stderr == ""
    assert "a.md" in result.stdout


def test_resume_and_retry_with_nothing_to_do(story: World) -> None:
    for command in ("resume", "retry"):
        result = story.run(command)
        assert result.exit_code == 0
        assert "nothing to do" in result.stderr


def test_documents_lists_them_stacked_or_in_columns(story: World) -> None:
    for width in (80, 200):
        result = story.run("documents", width=width)
        assert result.exit_code == 0
        assert "The Lamps of Carrow Quay" in result.stdout
        assert document_id("docs/story.md") in result.stdout
        assert "1 to 2 of 2" in result.stdout
        assert max(len(line) for line in result.stdout.splitlines()) <= width


def test_documents_filters_sorts_and_pages(story: World) -> None:
    assert story.json("documents", "--source", "docs/st")["total"] == 1
    assert story.json("documents", "--status", "failed") == {"documents": [], "total": 0}
    page = story.json("documents", "--sort", "source", "--descending", "--limit", "1")
    assert [item["source"] for item in page["documents"]] == ["docs/story.md"]
    assert page["total"] == 2
    assert story.json("documents", "--sort", "source", "--offset", "1")["documents"][0]["source"] == "docs/story.md"
    assert story.run("documents", "--offset", "9").stdout == "no documents (2 match)\n"


def test_documents_finds_a_batch(story: World) -> None:
    track = story.json("documents")["documents"][0]["track_id"]
    assert story.json("documents", "--track", track)["total"] == 2
    assert story.json("documents", "--track", "insert_other")["total"] == 0


@pytest.mark.parametrize("args", [("--limit", "0"), ("--sort", "colour"), ("--status", "lost"), ("--offset", "-1")])
def test_documents_refuses_what_it_cannot_do(story: World, args: tuple[str, ...]) -> None:
    assert story.run("documents", *args).exit_code == 2


def test_document_is_found_by_id_and_by_source(story: World) -> None:
    by_source = story.json("document", "docs/story.md")
    assert by_source == story.json("document", by_source["id"])
    assert by_source["chunks"][0]["text"] in STORY
    assert "Hester Tarrant" in story.run("document", "docs/story.md").stdout


def test_document_that_is_not_there_is_named(story: World) -> None:
    result = story.run("document", "doc-0")
    assert result.exit_code == 3
    assert "'doc-0'" in result.stderr


def test_delete_asks_first(story: World) -> None:
    refused = story.run("delete", "docs/story.md", input="n\n")
    assert refused.exit_code == 1
    assert story.json("documents")["total"] == 2
    unanswered = story.run("delete", "docs/story.md", input="")
    assert unanswered.exit_code == 2
    assert "give --yes" in unanswered.stderr
    assert story.json("documents")["total"] == 2
    accepted = story.run("delete", "docs/story.md", input="y\n")
    assert accepted.exit_code == 0
    assert "docs/story.md" in accepted.stderr
    assert "deleted 1 document" in accepted.stdout
    assert story.json("documents")["total"] == 1


def test_delete_leaves_what_came_anew_while_it_asked(story: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_output: object, _question: str) -> None:
        story.write("docs/story.md", "Another text.")
        assert story.run("index", "docs").exit_code == 0

    monkeypatch.setattr("heliograph.cli.output.Output.confirm", answer)
    result = story.run("delete", "docs/story.md")
    assert f"not deleted: {document_id('docs/story.md')}" in " ".join(result.stdout.split())
    assert story.json("documents")["total"] == 2


def test_delete_names_what_is_not_there_and_deletes_the_rest(story: World) -> None:
    result = story.run("delete", "docs/story.md", "doc-0", "--yes", "--json")
    assert result.exit_code == 1
    assert "'doc-0'" in result.stderr
    report = json.loads(result.stdout)
    assert report["deleted"] == [document_id("docs/story.md")]
    assert report["missing"] == ["doc-0"]


def test_delete_of_nothing_known_asks_nothing(story: World) -> None:
    result = story.run("delete", "doc-0")
    assert result.exit_code == 1
    assert result.stdout == ""


def test_a_workspace_that_is_not_there_is_not_made(world: World) -> None:
    for command in (["documents"], ["stats"], ["query", "why?"], ["resume"]):
        result = world.run(*command, "--workspace", "nowhere")
        assert result.exit_code == 3
        assert "'nowhere'" in result.stderr
    assert not (world.folder / "heliograph_data").exists()


def test_global_options_choose_folder_and_workspace(world: World) -> None:
    world.write("a.md", STORY)
    assert world.run("index", "a.md", "--data-dir", "kb", "--workspace", "w").exit_code == 0
    assert (world.folder / "kb" / "w" / "heliograph.db").exists()
    assert world.run("--data-dir", "kb", "--workspace", "w", "stats").exit_code == 0


def test_results_of_many_documents_are_cut_and_counted() -> None:
    failed = [DocumentResult("", f"{n}.md", Outcome.FAILED, IngestError("no")) for n in range(120)]
    fine = [DocumentResult("", f"{n}.txt", Outcome.PROCESSED) for n in range(30)]
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(render_results([*fine, *failed]))
    text = console.export_text()
    assert text.count(".md") == 100
    assert text.count(".txt") == 20
    assert "... and 10 processed, 20 failed" in text


def test_delete_of_what_matches_nothing_says_so(story: World) -> None:
    result = story.run("delete", "--filter", "team=nobody", "--yes")
    assert result.exit_code == 0
    assert "nothing was deleted" in result.stderr


def test_line_end_in_a_name_begins_no_line(world: World) -> None:
    world.write("new\nline.md", STORY)
    for command in (("index", "new\nline.md"), ("documents",), ("query", "Who wound the clock?")):
        assert "new\ufffdline.md" in world.run(*command, width=200).stdout


def test_errors_stand_behind_documents_that_have_any(world: World) -> None:
    world.write("a.md", STORY)
    world.write("empty.md", "\n")
    assert world.run("index", "a.md", "empty.md").exit_code == 1
    head, _, *rows = world.run("documents", "--sort", "source", width=200).stdout.splitlines()
    assert head.split()[-1] == "error"
    assert rows[1].rstrip().endswith("give it a text")
    assert "error" not in world.run("documents", "--source", "a.md", width=200).stdout


def test_names_that_are_no_text_end_in_one_line(world: World) -> None:
    world.write("a.md", "# A\n\nThe Lantern forwards readings over MQTT.")
    assert world.run("index", "a.md").exit_code == 0
    for command in (
        ("document", "\udcff"),
        ("undo", "\udcff"),
        ("backup", "\udcff.bak"),
        ("--data-dir", "d\udcff", "index", "a.md"),
    ):
        result = world.run(*command)
        assert result.exit_code in (3, 4), command
        assert result.stderr.splitlines()[-1].startswith("error: "), command
        assert "Traceback" not in result.stderr
