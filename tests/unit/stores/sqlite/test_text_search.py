from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.stores.bm25 import inverse_frequency
from heliograph.stores.sqlite import text_search
from heliograph.stores.sqlite.schema import migrate
from heliograph.stores.sqlite.text_plan import CandidatePlans, TermFrequency, quote
from heliograph.stores.sqlite.text_search import search_terms

TABLE = "chunks_terms"
WORDS = 2_000
ROWS = 6_000


@pytest.fixture(scope="module")
def zipf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    """A table of 6,000 rows of some 40 words by Zipf's law."""
    path = tmp_path_factory.mktemp("text") / "zipf.db"
    connection = apsw.Connection(str(path))
    migrate(connection, str(path))
    random = np.random.default_rng(5)
    shares = 1 / (np.arange(WORDS) + 2.7)
    lengths = np.clip(random.lognormal(3.6, 0.4, ROWS), 5, 150).astype(int)
    words = random.choice(WORDS, lengths.sum(), p=shares / shares.sum())
    with connection:
        for key, row in enumerate(np.split(words, np.cumsum(lengths)[:-1]), 1):
            terms = " ".join(f"w{word}" for word in row)
            connection.execute(f"INSERT INTO {TABLE} (rowid, terms) VALUES (?, ?)", (key, terms))
    yield connection
    connection.close()


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds at which a small table counts as large."""
    for name, value in (("_MOST_RANKED", 200), ("_MOST_COUNTED", 1_500), ("_LEAST_SCORED", 400)):
        monkeypatch.setattr(text_search, name, value)
    monkeypatch.setattr(text_search, "_SCORED_TERM_ROWS", 0)


def exact(connection: apsw.Connection, terms: list[str], limit: int) -> list[tuple[int, float]]:
    query = f"SELECT rowid, -rank FROM {TABLE} WHERE {TABLE} MATCH ? ORDER BY rank LIMIT ?"
    return connection.execute(query, (" OR ".join(map(quote, terms)), limit)).fetchall()


def questions(count: int, terms: int = 6) -> Iterator[list[str]]:
    random = np.random.default_rng(11)
    shares = 1 / (np.arange(WORDS) + 2.7)
    for _ in range(count):
        yield [f"w{word}" for word in random.choice(WORDS, terms, replace=False, p=shares / shares.sum())]


def test_small_results_are_ranked_by_fts5_itself(zipf: apsw.Connection) -> None:
    for terms in questions(5):
        rare = [term for term in terms if int(term[1:]) > 200] or ["w1900"]
        assert search_terms(zipf, TABLE, rare, 20) == exact(zipf, rare, 20)


@pytest.mark.usefixtures("small_limits")
def test_large_results_agree_with_the_exact_ranking(zipf: apsw.Connection) -> None:
    shares = []
    for terms in questions(60):
        found, wanted = search_terms(zipf, TABLE, terms, 20), exact(zipf, terms, 400)
        least = wanted[19][1] - 1e-4
        truth = dict(wanted)
        assert len(found) == 20
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
        shares.append(sum(truth.get(key, 0.0) >= least for key, _ in found) / 20)
    assert np.mean(shares) >= 0.98


@pytest.mark.usefixtures("small_limits")
def test_scores_are_those_of_fts5_where_all_frequencies_are_counted(
    zipf: apsw.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_search, "_MOST_COUNTED", ROWS)
    for terms in questions(20):
        truth = dict(exact(zipf, terms, ROWS))
        for key, score in search_terms(zipf, TABLE, terms, 10):
            # Terms in more than half of the rows have no weight but a millionth.
            assert score == pytest.approx(truth[key], abs=1e-4)


@pytest.mark.usefixtures("small_limits")
def test_as_many_are_found_as_there_are(zipf: apsw.Connection) -> None:
    assert len(search_terms(zipf, TABLE, ["w0", "w1", "w1999"], 5_000)) == len(
        exact(zipf, ["w0", "w1", "w1999"], 5_000)
    )
    assert len(search_terms(zipf, TABLE, ["w0", "w1"], 50)) == 50
    assert len(search_terms(zipf, TABLE, ["w3"], 50)) == 50
    assert len(search_terms(zipf, TABLE, ["w5", "missing", 'quo"ted', "w40"], 50)) == 50
    assert search_terms(zipf, TABLE, ["missing"], 50) == []


@pytest.mark.usefixtures("small_limits")
def test_a_page_of_terms_is_searched_by_its_rarest(zipf: apsw.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = [f"w{number}" for number in range(250)]
    monkeypatch.setattr(text_search, "_MOST_RANKED_OF_MANY", 10**9)
    assert [key for key, _ in search_terms(zipf, TABLE, terms, 10)] == [key for key, _ in exact(zipf, terms, 10)]
    monkeypatch.setattr(text_search, "_MOST_RANKED_OF_MANY", 9_000)
    rows = {term: len(exact(zipf, [term], ROWS)) for term in terms}
    rarest = sorted(terms, key=lambda term: rows[term])
    kept = [term for place, term in enumerate(rarest) if sum(rows[item] for item in rarest[: place + 1]) <= 9_000]
    assert 12 < len(kept) < 250
    found, wanted = search_terms(zipf, TABLE, terms, 10), exact(zipf, kept, 10)
    assert [score for _, score in found] == pytest.approx([score for _, score in wanted])


@pytest.mark.usefixtures("small_limits")
def test_terms_that_always_meet_do_not_make_too_many_candidates(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "pairs.db"))
    migrate(connection, "pairs.db")
    with connection:
        for key in range(1, 4_001):
            text = "new york city" if key % 4 == 0 else f"plain {key}"
            connection.execute(f"INSERT INTO {TABLE} (rowid, terms) VALUES (?, ?)", (key, text))
    found = search_terms(connection, TABLE, ["new", "york", "plain", "7"], 10)
    assert len(found) == 10
    assert found[0][0] == 7
    connection.close()


@given(st.lists(st.floats(1, 400_000), min_size=1, max_size=7), st.integers(1_000, 900_000))
@settings(max_examples=60)
def test_plans_grow_and_their_expressions_balance(rows: list[float], total: int) -> None:
    plans = CandidatePlans([TermFrequency(f"t{number}", min(count, total)) for number, count in enumerate(rows)], total)
    assert plans.thresholds == sorted(plans.thresholds, reverse=True)
    assert plans.rows == sorted(plans.rows)
    for choice in range(len(plans)):
        expression = plans.expression(choice)
        assert expression.count("(") == expression.count(")")
        assert '"t' in expression


def test_expression_holds_exactly_where_the_threshold_is_reached() -> None:
    terms = [TermFrequency(name, rows) for name, rows in (("a", 10), ("b", 100), ("c", 1_000), ("d", 3_000))]
    plans = CandidatePlans(terms, 10_000)
    weights = {item.term: inverse_frequency(item.rows, 10_000) for item in terms}
    for choice, threshold in enumerate(plans.thresholds):
        condition = plans.expression(choice).replace("AND", "and").replace("OR", "or")
        for bits in range(16):
            held = {name for place, name in enumerate("abcd") if bits >> place & 1}
            row = re.sub(r'"(\w)"', lambda match, held=held: str(match[1] in held), condition)
            assert eval(row) == (sum(weights[name] for name in held) >= threshold)
