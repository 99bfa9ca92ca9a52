from __future__ import annotations

from pathlib import Path

import pytest

from heliograph.errors import InvalidRequestError, NotFoundError
from heliograph.evaluation.sets import EvaluationSet, GivenExtraction, Passage, Question, find_sets, read_set

from .conftest import PASSAGES, QUESTIONS, write_lines


def test_read_set_reads_the_plain_layout(harbour: Path) -> None:
    read = read_set(harbour)
    assert read.name == "harbour"
    assert [passage.id for passage in read.passages] == ["p1", "p2", "p3", "p4"]
    assert [question.answers for question in read.questions] == [("Ada Pell",), ("Tobias Fenn",), (), ()]
    assert read.questions[2].gold == {"p2": 1.0, "p4": 1.0}
    assert read.questions[3].gold == {}
    assert read.questions[0].type == "single"


def test_read_set_reads_the_layout_of_beir(beir: Path) -> None:
    (question,) = read_set(beir).questions
    assert (question.id, question.text) == ("q3", "What have mill and ferry in common?")
    assert question.gold == {"p2": 2.0, "p4": 1.0}
    assert [item.id for item in read_set(beir, "train").questions] == ["q1"]


def test_read_set_takes_judgements_of_four_columns(beir: Path) -> None:
    (beir / "qrels" / "test.tsv").write_text("q1\t0\tp1\t1\n", "utf-8")
    assert read_set(beir).questions[0].gold == {"p1": 1.0}


def test_read_set_takes_one_split_of_a_plain_set(harbour: Path) -> None:
    write_lines(harbour / "queries.jsonl", [QUESTIONS[0] | {"split": "test"}, QUESTIONS[1] | {"split": "dev"}])
    assert [question.id for question in read_set(harbour, "dev").questions] == ["q2"]


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("corpus.jsonl", '{"id": "p1", "text"', "line 1 of .* is not JSON"),
        ("corpus.jsonl", "[1]", "one JSON object a line"),
        ("corpus.jsonl", '{"id": "p1", "title": "no text"}', "no usable 'text'"),
        ("corpus.jsonl", "", "nothing to evaluate"),
        ("corpus.jsonl", '{"id": "a", "text": "x"}\n{"id": "a", "text": "y"}', "'a' twice"),
        ("queries.jsonl", '{"id": "q", "question": " ", "gold": []}', "no usable 'question'"),
        ("queries.jsonl", '{"id": "q", "question": "why?", "gold": "p1"}', "'gold' is 'p1'"),
        ("queries.jsonl", '{"id": "q", "question": "why?", "gold": ["p9"]}', "'p9' as gold"),
        ("queries.jsonl", '{"id": "q", "question": "why?"}', r"line 1 of .* has no 'gold'"),
        ("queries.jsonl", '{"id": "q", "question": "why?", "gold": null}', r"line 1 of .* has no 'gold'"),
        ("queries.jsonl", "\n", "nothing to evaluate"),
    ],
)
def test_read_set_names_what_is_wrong(harbour: Path, file: str, content: str, said: str) -> None:
    (harbour / file).write_text(content, "utf-8")
    with pytest.raises(InvalidRequestError, match=said):
        read_set(harbour)


def test_read_set_replaces_halves_of_surrogate_pairs(harbour: Path) -> None:
    passage = r'{"id": "p\ud800", "title": "\uDFFF", "text": "A mill \ud83d\ude00 \ud800."}'
    question = r'{"id": "q", "question": "Who \ud800?", "answers": ["\udc00"], "gold": ["p\ud800"], "type": "\ud8aa"}'
    triple = r'{"id": "p\ud800", "entities": ["Ada \ud800"], "triples": [["a", "\ud800", "b"]]}'
    for file, line in (("corpus", passage), ("queries", question), ("openie", triple)):
        (harbour / f"{file}.jsonl").write_text(line, "utf-8")
    assert read_set(harbour, extractions="openie.jsonl") == EvaluationSet(
        "harbour",
        (Passage("p\ufffd", "\ufffd", "A mill \U0001f600 \ufffd."),),
        (Question("q", "Who \ufffd?", {"p\ufffd": 1.0}, ("\ufffd",), "\ufffd"),),
        {"p\ufffd": GivenExtraction(("Ada \ufffd",), (("a", "\ufffd", "b"),))},
    )


def test_read_set_names_a_set_whose_folder_is_no_text(harbour: Path) -> None:
    assert read_set(harbour.rename(harbour.with_name("caf\udce9"))).name == "caf\ufffd"


def test_read_set_names_a_file_that_is_missing(harbour: Path) -> None:
    (harbour / "queries.jsonl").unlink()
    with pytest.raises(InvalidRequestError, match=r"queries\.jsonl"):
        read_set(harbour)


@pytest.mark.parametrize("content", ["query-id\tcorpus-id\tscore\nq1 p1 1\n", "q1\tp1\t1\nq1\tp1\tmuch\n"])
def test_read_set_names_a_line_of_judgements_that_is_none(beir: Path, content: str) -> None:
    (beir / "qrels" / "test.tsv").write_text(content, "utf-8")
    with pytest.raises(InvalidRequestError, match=r"line 2 of .*test\.tsv"):
        read_set(beir)


@pytest.mark.parametrize("score", ["nan", "inf", "-inf"])
def test_read_set_takes_no_score_that_is_not_finite(beir: Path, score: str) -> None:
    (beir / "qrels" / "test.tsv").write_text(f"q1\tp1\t1\nq1\tp2\t{score}\n", "utf-8")
    with pytest.raises(InvalidRequestError, match=r"line 2 of .*test\.tsv.* has the score"):
        read_set(beir)


def test_read_set_says_that_no_question_is_judged(harbour: Path, beir: Path) -> None:
    (beir / "qrels" / "test.tsv").write_text("elsewhere\tp1\t1\n", "utf-8")
    with pytest.raises(InvalidRequestError, match=r"no question in .*queries\.jsonl.* is judged"):
        read_set(beir)
    with pytest.raises(InvalidRequestError, match=r"no question of the split 'nope' in .*queries\.jsonl.* is judged"):
        read_set(harbour, "nope")


def test_read_set_names_a_split_that_is_not_there(beir: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"no judgements 'dev\.tsv'; there are test, train"):
        read_set(beir, "dev")


def test_find_sets_takes_a_set_or_a_folder_of_them(harbour: Path, beir: Path) -> None:
    assert find_sets(harbour) == [harbour]
    assert find_sets(harbour.parent) == [beir, harbour]
    (harbour / "queries.jsonl").write_text("")
    assert find_sets(harbour.parent) == [beir]


def test_find_sets_says_when_there_is_none(tmp_path: Path) -> None:
    write_lines(tmp_path / "only" / "corpus.jsonl", PASSAGES)
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(NotFoundError, match=r"corpus\.jsonl and queries\.jsonl"):
            find_sets(folder)


def test_extractions_are_read_beside_the_corpus(harbour: Path) -> None:
    row = {"id": "p1", "entities": ["Ada Pell"], "triples": [["Ada Pell", "keeps", "lamp"]]}
    write_lines(harbour / "openie.jsonl", [row])
    found = read_set(harbour, extractions="openie.jsonl").extractions
    assert found == {"p1": GivenExtraction(("Ada Pell",), (("Ada Pell", "keeps", "lamp"),))}
    assert read_set(harbour).extractions is None


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "p9", "entities": []}, "the passage 'p9'"),
        ({"id": "p1", "entities": "Ada Pell"}, "a list of texts"),
        ({"id": "p1", "entities": [], "triples": [["Ada Pell", "keeps"]]}, "source, predicate, target"),
        ({"id": "p1", "entities": [], "triples": "none"}, "source, predicate, target"),
    ],
)
def test_extractions_that_cannot_be_used_are_named(harbour: Path, row: dict[str, object], said: str) -> None:
    write_lines(harbour / "openie.jsonl", [row])
    with pytest.raises(InvalidRequestError, match=said):
        read_set(harbour, extractions="openie.jsonl")
