from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from heliograph.cli import analysis as command
from heliograph.cli.analysis import EvaluationFiles
from heliograph.embedding.base import EmbeddingModel
from heliograph.engine import AsyncHeliograph
from heliograph.evaluation.results import EvaluationRun
from heliograph.extraction.base import Extractor
from heliograph.settings import Settings

from .conftest import World

CORPUS = (
    '{"id": "p1", "title": "Gannet Head", "text": "Ada Pell keeps the lamp at Gannet Head."}\n'
    '{"id": "p2", "title": "Kestrel Mill", "text": "The mill makes paper from flax."}\n'
)
QUERIES = '{"id": "q1", "question": "Who keeps the lamp?", "answers": ["Ada Pell"], "gold": ["p1"]}\n'


@pytest.fixture
def harbour(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with one set in `sets/harbour`."""
    world.write("sets/harbour/corpus.jsonl", CORPUS)
    world.write("sets/harbour/queries.jsonl", QUERIES)

    def make(settings: Settings, embedding: EmbeddingModel, extractor: Extractor | None) -> AsyncHeliograph:
        world.settings.append(settings)
        return AsyncHeliograph(settings=settings, embedding=embedding, extractor=extractor)

    monkeypatch.setattr(command, "open_embedding", lambda settings: world.embedding)
    monkeypatch.setattr(command, "make_async_engine", make)
    return world


def test_eval_prints_a_table_and_says_what_it_does_on_standard_error(harbour: World) -> None:
    result = harbour.run("eval", "sets", "--mode", "naive", "--mode", "mix:chunk_top_k=1")
    assert result.exit_code == 0
    assert "| naive | 1 | 100.0 |" in result.stdout
    assert "| mix:chunk_top_k=1 | 1 | 100.0 |" in result.stdout
    assert "index made" in result.stderr
    assert "warning" not in result.stderr
    assert "index reused" in harbour.run("eval", "sets/harbour").stderr
    assert (harbour.folder / "heliograph_eval").is_dir()


def test_eval_writes_every_form(harbour: World) -> None:
    files = ("--output", "out/run.json", "--markdown", "out/run.md", "--plot", "out/run.svg", "--ragas", "out/ragas")
    assert harbour.run("eval", "sets", "--mode", "naive", *files).exit_code == 0
    out = harbour.folder / "out"
    assert json.loads((out / "run.json").read_text("utf-8"))["sets"][0]["runs"][0]["questions"][0]["id"] == "q1"
    assert "R@5" in (out / "run.md").read_text("utf-8")
    assert (out / "run.svg").read_text("utf-8").startswith("<svg")
    (line,) = (out / "ragas" / "harbour.naive.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line)["reference"] == "Ada Pell"


def test_eval_json_is_one_document_without_single_questions(harbour: World) -> None:
    payload = harbour.json("eval", "sets", "--mode", "naive")
    assert payload["sets"][0]["runs"][0]["summary"]["scores"]["recall@5"] == 1.0
    assert payload["sets"][0]["runs"][0]["questions"] == []


def test_eval_diff_compares_two_files(harbour: World) -> None:
    for name in ("one", "two"):
        harbour.run("eval", "sets", "--mode", "naive", "--output", f"{name}.json")
    result = harbour.run("eval", "diff", "one.json", "two.json")
    assert result.exit_code == 0
    assert "0 questions gained in R@5, 0 lost" in result.stdout
    assert harbour.json("eval", "diff", "one.json", "two.json")[0]["name"] == "harbour"


def test_eval_passes_settings_and_options_on(harbour: World) -> None:
    args = ("--set", "ingest.chunk_tokens=128", "--join", "2", "--index-dir", "elsewhere", "--no-answers")
    result = harbour.run("eval", "sets", "-m", "naive", *args)
    assert result.exit_code == 0
    assert "joined 2 to a document: 1 chunks" in result.stdout
    assert "answer" not in result.stdout
    assert harbour.settings[0].ingest.chunk_tokens == 128
    assert harbour.settings[0].store.data_dir == Path("elsewhere")


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("missing",), 3, "no evaluation set in 'missing'"),
        (("sets", "--mode", "best"), 2, "names no mode"),
        (("sets", "--mode", "naive", "--mode", "naive"), 2, "each once"),
        (("sets", "--mode", "naive:colour=red"), 2, "'colour'"),
        (("sets", "--set", "chunk_tokens=3"), 2, "ROOM.NAME=VALUE"),
        (("sets", "--set", "ingest.nothing=3"), 2, "nothing"),
        (("sets", "--max-passages", "1"), 3, "raise --max-passages"),
        (("diff", "one.json"), 2, "two files"),
        (("diff", "one.json", "two.json"), 2, "'one.json'"),
    ],
)
def test_eval_says_what_cannot_be_done(harbour: World, args: tuple[str, ...], code: int, said: str) -> None:
    result = harbour.run("eval", *args)
    assert result.exit_code == code
    assert said in " ".join(result.stderr.split())


def test_eval_tells_of_a_question_that_is_refused_before_it_indexes(harbour: World) -> None:
    harbour.write("sets/harbour/queries.jsonl", QUERIES + '{"id": "q2", "question": "?", "gold": []}')
    result = harbour.run("eval", "sets", "-m", "naive", "--output", "run.json")
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "the question 'q2' in queries.jsonl of the set 'harbour' cannot be asked in 'naive'" in said
    assert "too short to search for" in said
    assert not (harbour.folder / "heliograph_eval").exists()


def test_eval_asks_the_first_questions_only(harbour: World) -> None:
    harbour.write("sets/harbour/queries.jsonl", QUERIES + QUERIES.replace("q1", "q2"))
    assert "| naive | 1 |" in harbour.run("eval", "sets", "-m", "naive", "--questions", "1").stdout


@pytest.mark.parametrize(
    ("option", "path", "said"),
    [
        ("--output", "sets", "--output 'sets' is a folder"),
        ("--markdown", "sets", "--markdown 'sets' is a folder"),
        ("--plot", "sets/harbour/corpus.jsonl/plot.svg", "sets/harbour/corpus.jsonl"),
        ("--ragas", "sets/harbour/corpus.jsonl", "is a file; give the name of a folder"),
    ],
)
def test_eval_refuses_a_path_that_cannot_be_written_before_it_measures(
    harbour: World, option: str, path: str, said: str
) -> None:
    result = harbour.run("eval", "sets", "--mode", "naive", option, path)
    assert result.exit_code != 0
    assert said in result.stderr
    assert "index made" not in result.stderr
    assert not (harbour.folder / "heliograph_eval").exists()


def test_eval_shows_what_it_measured_even_if_a_file_cannot_be_written(
    harbour: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(files: EvaluationFiles, run: EvaluationRun) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(files.output))

    monkeypatch.setattr(EvaluationFiles, "write", fail)
    result = harbour.run("eval", "sets", "--mode", "naive", "--output", "run.json")
    assert result.exit_code == 1
    assert "| naive | 1 | 100.0 |" in result.stdout
