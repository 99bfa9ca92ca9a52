from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.embedding.base import QueryCachedEmbeddingModel
from heliograph.engine import AsyncHeliograph
from heliograph.errors import InvalidRequestError
from heliograph.evaluation.harness import EvaluationPlan, Watcher, evaluate, plan_index
from heliograph.evaluation.reports import to_json
from heliograph.evaluation.results import Configuration, EvaluationRun, IndexInfo
from heliograph.evaluation.sets import EvaluationSet, GivenExtraction, map_corpus, read_set
from heliograph.models import Mode
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel

NAIVE, MIX = Configuration.parse("naive"), Configuration.parse("mix")


def plan(tmp_path: Path, *configurations: Configuration, **options: object) -> EvaluationPlan:
    return EvaluationPlan(configurations or (NAIVE,), tmp_path / "indexes", **options)  # type: ignore[arg-type]


async def run(given: EvaluationSet, plan: EvaluationPlan, **sections: dict[str, object]) -> EvaluationRun:
    settings = Settings.load(**sections)
    return await evaluate([given], settings, plan, embedding=FakeEmbeddingModel())


async def test_evaluate_scores_every_question_and_counts_those_without_gold_apart(
    harbour: Path, tmp_path: Path
) -> None:
    (report,) = (await run(read_set(harbour), plan(tmp_path, NAIVE, MIX))).sets
    naive, mix = report.runs
    assert (report.name, report.passages, report.index.chunks) == ("harbour", 4, 4)
    assert naive.summary.questions == 3
    assert naive.summary.scores["recall@5"] == 1.0
    assert naive.summary.scores["answer_hit"] == 1.0
    assert naive.summary.scores["answer_in_context"] == 1.0
    assert "answer_in_graph" not in naive.summary.scores
    assert mix.summary.scores["answer_in_graph"] == 1.0
    assert {name: group.questions for name, group in mix.by_type.items()} == {"multi": 1, "single": 2}
    assert (naive.unanswerable.questions, naive.unanswerable.declined) == (1, 1)
    assert naive.questions[0].found[0] == ("p1",)
    assert naive.latency.median_wall_ms > 0
    assert naive.cost.chat_calls == 0
    assert naive.cost.embedding_tokens > 0
    (comparison,) = report.comparisons
    assert (comparison.base, comparison.other) == ("naive", "mix")
    assert comparison.differences["recall@5"].questions == 3


@pytest.mark.parametrize(("reply", "declined"), [("Nobody says. [no-answer]", 1), ("It is forty metres.", 0)])
async def test_question_is_declined_where_its_answer_says_so(
    harbour: Path, tmp_path: Path, reply: str, declined: int
) -> None:
    def open_engine(settings: Settings, embedding: object, _extractor: object) -> AsyncHeliograph:
        return AsyncHeliograph(settings=settings, embedding=embedding, chat=FakeChatModel(reply))  # type: ignore[arg-type]

    found = await evaluate(
        [read_set(harbour)],
        Settings.load(ingest={"extractor": "local"}),
        plan(tmp_path),
        embedding=FakeEmbeddingModel(),
        open_engine=open_engine,
    )
    assert found.sets[0].runs[0].unanswerable.declined == declined


async def test_evaluate_without_answers_scores_rankings_only(harbour: Path, tmp_path: Path) -> None:
    (report,) = (await run(read_set(harbour), plan(tmp_path, with_answers=False, most_questions=2))).sets
    assert [item.answer for item in report.runs[0].questions] == [None, None]
    assert "answer_hit" not in report.runs[0].summary.scores


async def test_joined_passages_are_found_again(harbour: Path, tmp_path: Path) -> None:
    (report,) = (await run(read_set(harbour), plan(tmp_path, join=4))).sets
    assert (report.index.documents, report.index.chunks) == (1, 1)
    assert report.runs[0].questions[0].found == (("p1", "p2", "p3", "p4"),)
    assert report.runs[0].summary.scores["recall@2"] == 1.0


async def test_evaluate_judges_what_a_chat_model_wrote(harbour: Path, tmp_path: Path) -> None:
    chat = FakeChatModel("Ada Pell [1].")

    def open_engine(settings: Settings, embedding: object, _extractor: object) -> AsyncHeliograph:
        return AsyncHeliograph(settings=settings, embedding=embedding, chat=chat)  # type: ignore[arg-type]

    given = replace(read_set(harbour), questions=read_set(harbour).questions[:1])
    found = await evaluate(
        [given],
        Settings.load(ingest={"extractor": "local"}),
        plan(tmp_path, Configuration.parse("naive:chunk_top_k=1")),
        embedding=FakeEmbeddingModel(),
        open_engine=open_engine,
    )
    ran = found.sets[0].runs[0]
    assert ran.questions[0].answer is not None
    assert ran.questions[0].answer.f1 == 1.0
    assert ran.summary.scores["citations_exist"] == 1.0
    assert ran.summary.scores["citations_supported"] == 1.0
    assert ran.cost.chat_calls == 1
    assert ran.cost.output_tokens > 0


async def test_a_broken_reply_of_a_chat_model_can_be_written(harbour: Path, tmp_path: Path) -> None:
    def open_engine(settings: Settings, embedding: object, _extractor: object) -> AsyncHeliograph:
        chat = FakeChatModel("Ada \ud800 Pell [1].")
        return AsyncHeliograph(settings=settings, embedding=embedding, chat=chat)  # type: ignore[arg-type]

    found = await evaluate(
        [read_set(harbour)],
        Settings.load(ingest={"extractor": "local"}),
        plan(tmp_path, most_questions=1),
        embedding=FakeEmbeddingModel(),
        open_engine=open_engine,
    )
    assert "Ada \ufffd Pell [1]." in to_json(found)


async def test_index_is_reused_until_something_changes(harbour: Path, tmp_path: Path) -> None:
    given = read_set(harbour)
    made: list[IndexInfo] = []
    for settings, changed in (
        ({}, given),
        ({}, given),
        ({"ingest": {"chunk_tokens": 128}}, given),
        ({}, replace(given, passages=(replace(given.passages[0], text="Other."), *given.passages[1:]))),
        ({"query": {"top_k": 3}}, given),
    ):
        await evaluate(
            [changed],
            Settings.load(**settings),
            plan(tmp_path),
            embedding=FakeEmbeddingModel(),
            watcher=Watcher(on_index=made.append),
        )
    assert [info.was_reused for info in made] == [False, True, False, False, True]
    assert len({info.folder for info in made}) == 3


async def test_index_of_another_code_or_of_a_broken_run_is_made_anew(
    harbour: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = read_set(harbour)
    first = (await run(given, plan(tmp_path))).sets[0].index
    monkeypatch.setattr("heliograph.evaluation.harness._code_hash", lambda: "other")
    assert (await run(given, plan(tmp_path, keeps_stale=True))).sets[0].index.was_reused
    assert not (await run(given, plan(tmp_path))).sets[0].index.was_reused
    mark = Path(first.folder) / "fingerprint.json"
    mark.write_text("{}", "utf-8")
    assert not (await run(given, plan(tmp_path))).sets[0].index.was_reused


async def test_evaluate_names_a_field_that_no_question_has(harbour: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="'colour'"):
        await run(read_set(harbour), plan(tmp_path, Configuration.parse("naive:colour=red")))


@pytest.mark.parametrize(
    ("section", "name", "value", "is_other"),
    [
        ("resolution", "merge_duplicates", True, True),
        ("resolution", "min_duplicate_cosine", 0.7, False),
        ("chat", "temperature", 1.5, True),
        ("chat", "max_output_tokens", 100, True),
        ("chat", "timeout_seconds", 7.0, False),
    ],
)
def test_index_depends_on_what_it_is_made_with(
    harbour: Path, tmp_path: Path, section: str, name: str, value: object, *, is_other: bool
) -> None:
    corpus, info = map_corpus(read_set(harbour)), FakeEmbeddingModel().info
    settings = Settings.load(chat={"model": "m"})
    changed = settings.model_copy(update={section: getattr(settings, section).model_copy(update={name: value})})
    first, second = (plan_index("harbour", corpus, given, info, tmp_path) for given in (settings, changed))
    assert (first.fingerprint != second.fingerprint) is is_other
    assert (first.folder != second.folder) is is_other


def test_index_wants_the_embedded_store(harbour: Path, tmp_path: Path) -> None:
    given = read_set(harbour)
    settings = Settings.load(store={"url": "postgresql://localhost/x"})
    with pytest.raises(InvalidRequestError, match="embedded store"):
        plan_index("harbour", map_corpus(given), settings, FakeEmbeddingModel().info, tmp_path)


def test_configuration_is_parsed_with_its_options() -> None:
    parsed = Configuration.parse("mix:top_k=60,enable_rerank=false,chunk_picking=weight,min=0.5")
    assert parsed.mode is Mode.MIX
    assert parsed.options == {"top_k": 60, "enable_rerank": False, "chunk_picking": "weight", "min": 0.5}


@pytest.mark.parametrize("text", ["", "best", "bypass", "mix:top_k", "mix:=3"])
def test_configuration_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        Configuration.parse(text)


@pytest.mark.parametrize("options", [{"configurations": ()}, {"configurations": (NAIVE, NAIVE)}, {"join": 0}])
def test_plan_that_makes_no_sense_is_refused(tmp_path: Path, options: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError):
        EvaluationPlan(**({"configurations": (NAIVE,), "folder": tmp_path} | options))  # type: ignore[arg-type]


async def test_each_configuration_pays_for_its_own_vectors(harbour: Path, tmp_path: Path) -> None:
    again = Configuration.parse("naive:top_k=40")
    given = read_set(harbour)
    model = QueryCachedEmbeddingModel(FakeEmbeddingModel())
    found = await evaluate([given], Settings.load(), plan(tmp_path, NAIVE, again), embedding=model)
    first, second = (ran.cost.embedding_tokens for ran in found.sets[0].runs)
    assert first == second > 0


async def test_given_extractions_stand_in_for_the_extractor(harbour: Path, tmp_path: Path) -> None:
    given = read_set(harbour)
    said = {"p1": GivenExtraction(("Ada Pell", "Gannet Head"), (("Ada Pell", "keeps", "Gannet Head"),))}
    (read_locally,) = (await run(given, plan(tmp_path))).sets
    (replayed,) = (await run(replace(given, extractions=said), plan(tmp_path))).sets
    assert (replayed.index.entities, replayed.index.relations) == (2, 1)
    assert replayed.index.folder != read_locally.index.folder
    (nothing,) = (await run(replace(given, extractions={}), plan(tmp_path))).sets
    assert nothing.index.entities == 0
