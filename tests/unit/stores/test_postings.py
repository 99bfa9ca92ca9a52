from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.stores import bm25 as posting_ranking
from heliograph.stores import bm25 as posting_segments
from heliograph.stores.bm25 import K1, B, PostingIndex, hash_term, inverse_frequency
from heliograph.stores.view import KeySet

Rows = Mapping[int, Sequence[str]]

WORDS = [f"w{number}" for number in range(12)]
# Early words are frequent: some are in more than half of the rows.
words = st.lists(st.integers(0, 11).map(lambda drawn: WORDS[drawn * drawn // 12]), max_size=12)
batches = st.dictionaries(st.integers(1, 40), words, max_size=25)
changes = st.lists(st.one_of(batches, st.sets(st.integers(1, 40), max_size=25)), max_size=8)


@pytest.fixture(autouse=True, params=["as it is", "small bounds"])
def bounds(request: pytest.FixtureRequest) -> Iterator[None]:
    """Also with bounds at which a small index counts as large."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "small bounds":
            patch.setattr(posting_ranking, "_FEW", 0)
            patch.setattr(posting_ranking, "_LOOKUP", 1)
            patch.setattr(posting_segments, "_BLOCK", 3)
        yield


def keys_of(*keys: int) -> np.ndarray:
    return np.array(sorted(keys), np.int64)


def rank_all(rows: Rows, terms: Sequence[str], allowed: Collection[int] | None = None) -> list[tuple[int, float]]:
    """Return all that hold a term, best first, by the formula."""
    mean = sum(map(len, rows.values())) / max(len(rows), 1)
    held = {term: sum(term in row for row in rows.values()) for term in dict.fromkeys(terms)}
    weights = {term: inverse_frequency(count, len(rows)) for term, count in held.items() if count}
    scores: dict[int, float] = {}
    for key, row in rows.items():
        counts = Counter(row)
        norm = K1 * (1 - B + B * len(row) / mean) if mean else 0.0
        score = sum(weights[term] * (K1 + 1) * counts[term] / (counts[term] + norm) for term in weights if counts[term])
        if score and (allowed is None or key in allowed):
            scores[key] = score
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def assert_ranked(index: PostingIndex, rows: Rows, terms: Sequence[str], limit: int, allowed: KeySet | None) -> None:
    keys, scores = index.search(terms, limit, allowed)
    exact = rank_all(rows, terms, None if allowed is None else set(allowed.keys.tolist()))
    assert len(set(keys.tolist())) == len(keys)
    assert scores[:limit].tolist() == pytest.approx([score for _, score in exact[:limit]], rel=1e-12)
    # Equals of the last are all there.
    assert set(scores[limit:].tolist()) <= {scores[-1]} == {scores[limit - 1]} if len(scores) > limit else True
    truth = dict(exact)
    assert scores.tolist() == pytest.approx([truth[key] for key in keys.tolist()], rel=1e-12)
    assert list(zip((-scores).tolist(), keys.tolist(), strict=True)) == sorted(
        zip((-scores).tolist(), keys.tolist(), strict=True)
    )


def changed(steps: Sequence[dict[int, list[str]] | set[int]]) -> tuple[PostingIndex, dict[int, list[str]]]:
    index, rows = PostingIndex(), dict[int, list[str]]()
    for step in steps:
        if isinstance(step, dict):
            index.add(step.items())
            rows |= step
        else:
            index.remove(np.array(list(step), np.int64))
            rows = {key: row for key, row in rows.items() if key not in step}
    return index, rows


@given(changes, st.lists(st.sampled_from([*WORDS, "unknown"]), max_size=8), st.integers(1, 12), st.data())
@settings(max_examples=80, deadline=None)
def test_search_is_exact_after_any_changes(steps, terms: list[str], limit: int, data: st.DataObject) -> None:
    index, rows = changed(steps)
    allowed = data.draw(st.none() | st.sets(st.integers(1, 60), max_size=30))
    among = None if allowed is None else KeySet(keys_of(*allowed))
    for _ in range(2):
        assert_ranked(index, rows, terms, limit, among)
    assert len(index) == len(rows)
    assert {key for key in range(1, 61) if key in index} == rows.keys()
    assert index.count(keys_of(*range(1, 61))) == len(rows)


@given(changes)
@settings(max_examples=30, deadline=None)
def test_file_holds_what_was_saved(tmp_path_factory: pytest.TempPathFactory, steps) -> None:
    index, rows = changed(steps)
    path = tmp_path_factory.mktemp("postings") / "x.postings"
    index.save(path, "mine")
    read = PostingIndex.load(path, ["other", "mine"])
    assert len(read) == len(rows)
    assert_ranked(read, rows, WORDS, 50, None)
    assert [entry.name for entry in path.parent.iterdir()] == ["x.postings"]


def zipf_rows(count: int, seed: int = 3) -> dict[int, list[str]]:
    random_ = random.Random(seed)
    vocabulary = [f"t{number}" for number in range(3_000)]
    weights = [1 / (number + 3) for number in range(3_000)]
    return {key: random_.choices(vocabulary, weights, k=random_.randint(0, 60)) for key in range(1, count + 1)}


@pytest.fixture(scope="module")
def large() -> tuple[PostingIndex, dict[int, list[str]]]:
    """3,000 rows in several segments, some of them replaced and removed."""
    rows, index = zipf_rows(3_000), PostingIndex()
    keys = list(rows)
    for start in range(0, len(keys), 700):
        index.add((key, rows[key]) for key in keys[start : start + 700])
    index.remove(np.arange(50, 350, dtype=np.int64))
    again = {key: row for key, row in zipf_rows(500, seed=4).items() if key >= 200}
    index.add(again.items())
    rows = {key: row for key, row in rows.items() if not 50 <= key < 350} | again
    return index, rows


def test_large_index_is_searched_exactly(large: tuple[PostingIndex, dict[int, list[str]]]) -> None:
    index, rows = large
    random_ = random.Random(8)
    allowed = KeySet(keys_of(*random_.sample(range(1, 3_500), 400)))
    for _ in range(15):
        terms = [f"t{int(3_000 ** random_.random()) - 1}" for _ in range(8)]
        assert_ranked(index, rows, terms, 20, None)
        assert_ranked(index, rows, terms, 20, allowed)


def test_terms_in_another_order_and_repeated_score_the_same(large: tuple[PostingIndex, dict[int, list[str]]]) -> None:
    terms = ["t1", "t40", "t900", "t7", "t300"]
    keys, scores = large[0].search(terms, 30)
    for other in (terms[::-1], [*terms, *terms]):
        again, same = large[0].search(other, 30)
        assert (again.tolist(), same.tolist()) == (keys.tolist(), scores.tolist())


def test_equal_rows_come_by_key() -> None:
    index = PostingIndex()
    for key in (9, 2, 7, 4, 3):
        index.add([(key, ["same", "words"]), (key + 100, ["other"])])
    assert index.search(["same"], 3)[0].tolist() == [2, 3, 4, 7, 9]
    assert index.search(["same"], 3, KeySet(keys_of(7, 9, 3)))[0].tolist() == [3, 7, 9]


def test_nothing_is_found_in_nothing() -> None:
    index = PostingIndex()
    assert index.search(["x"], 5)[0].tolist() == []
    index.add([(1, []), (2, ())])
    assert (len(index), 1 in index, index.search(["x"], 5)[0].tolist()) == (2, True, [])
    index.add([(3, ["x"])])
    assert index.search([], 5)[0].tolist() == []
    assert index.search(["x"], 0)[0].tolist() == []
    assert index.search(["x"], 5, KeySet(keys_of()))[0].tolist() == []
    index.remove(keys_of(1, 2, 3))
    assert (len(index), index.search(["x"], 5)[0].tolist()) == (0, [])


def test_many_repeats_count_as_the_most_that_is_kept() -> None:
    index = PostingIndex()
    index.add([(1, ["x"] * 70_000), (2, ["y"])])
    assert index._moment.segments[0].counts.tolist() == [65_535, 1]
    assert index.search(["x"], 5)[0].tolist() == [1]


def test_segments_stay_few_and_forget_what_was_removed() -> None:
    index = PostingIndex()
    for key in range(600):
        index.add([(key, ["all", f"w{key}"])])
    assert len(index._moment.segments) <= 10
    index.remove(np.arange(1, 600, dtype=np.int64))
    assert sum(len(segment.keys) for segment in index._moment.segments) <= 2
    assert index.search(["all"], 5)[0].tolist() == [0]


def test_fork_changes_alone() -> None:
    index = PostingIndex()
    index.add([(1, ["x"]), (2, ["y"])])
    fork = index.fork()
    fork.remove(keys_of(1))
    fork.add([(3, ["x"])])
    assert index.search(["x"], 5)[0].tolist() == [1]
    assert fork.search(["x"], 5)[0].tolist() == [3]


def test_searches_run_beside_changes() -> None:
    index, stop, failed = PostingIndex(), threading.Event(), list[str]()
    index.add((key, ["all", f"w{key}"]) for key in range(500))

    def search() -> None:
        while not stop.is_set():
            keys = index.search(["all", "w7"], 2_000)[0].tolist()
            if not set(range(500)) <= set(keys):
                failed.append(f"{len(keys)} found")

    threads = [threading.Thread(target=search) for _ in range(2)]
    for thread in threads:
        thread.start()
    for key in range(500, 700):
        index.add([(key, ["all"]), (key - 500, ["all", "again"])])
    stop.set()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(index) == 700


def test_terms_are_known_by_the_same_number_in_every_process() -> None:
    code = "from heliograph.stores.bm25 import hash_term; print(hash_term('straße'))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(told) == hash_term("straße")


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    index = PostingIndex()
    index.add([(1, ["x", "y"]), (2, ["y"]), (3, ["z"])])
    index.remove(keys_of(3))
    index.save(tmp_path / "x.postings", "mine")
    return tmp_path / "x.postings"


@pytest.mark.parametrize(
    "damage", ["empty", "short", "cut", "longer", "garbage", "format", "header", "contents", "mark"]
)
def test_damaged_or_foreign_file_is_refused(saved: Path, damage: str) -> None:
    whole = saved.read_bytes()
    spoiled = {
        "empty": b"",
        "short": whole[:10],
        "cut": whole[:-1],
        "longer": whole + b"x",
        "garbage": b"garbage" * 100,
        "format": whole[:8] + b"\x09" + whole[9:],
        "header": whole[:30] + bytes([whole[30] ^ 1]) + whole[31:],
        "contents": whole[:260] + bytes(byte ^ 1 for byte in whole[260:360]) + whole[360:],
        "mark": whole,
    }
    saved.write_bytes(spoiled[damage])
    with pytest.raises(ValueError, match="it"):
        PostingIndex.load(saved, ["other"] if damage == "mark" else ["mine"])


def test_file_may_be_replaced_and_removed_while_it_is_read(saved: Path) -> None:
    index = PostingIndex.load(saved, ["mine"])
    other = PostingIndex()
    other.add([(5, ["x"])])
    other.save(saved, "mine")
    assert PostingIndex.load(saved, ["mine"]).search(["x"], 5)[0].tolist() == [5]
    saved.unlink()
    assert index.search(["x"], 5)[0].tolist() == [1]
    index.add([(4, ["x"])])
    assert sorted(index.search(["x"], 5)[0].tolist()) == [1, 4]


def test_file_that_cannot_be_written_leaves_the_one_before(saved: Path) -> None:
    index = PostingIndex.load(saved, ["mine"])
    before = saved.read_bytes()
    (saved.parent / f".{saved.name}.part").mkdir()
    with pytest.raises(OSError, match="part"):
        index.save(saved, "mine")
    assert saved.read_bytes() == before
