from __future__ import annotations

from collections.abc import Iterator

import apsw
import numpy as np
import pytest

from heliograph.stores.candidates import Candidates
from heliograph.stores.changeset import Collection
from heliograph.stores.sqlite.search import _score

COUNT, DIMENSION, LIMIT = 80, 16, 10


@pytest.fixture
def vectors() -> np.ndarray:
    rows = np.random.default_rng(3).normal(size=(COUNT, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture
def connection(vectors: np.ndarray) -> Iterator[apsw.Connection]:
    connection = apsw.Connection("")
    connection.execute("CREATE TABLE chunks_vector (key INTEGER PRIMARY KEY, vector BLOB NOT NULL)")
    rows = ((key, row.tobytes()) for key, row in enumerate(vectors))
    connection.executemany("INSERT INTO chunks_vector VALUES (?, ?)", rows)
    yield connection
    connection.close()


@pytest.mark.parametrize("error", [0.0, 0.01, 0.3])
def test_best_of_the_candidates_are_found_whatever_the_estimates_are_off(
    connection: apsw.Connection, vectors: np.ndarray, error: float
) -> None:
    random = np.random.default_rng(5)
    for vector in vectors[:20]:
        cosines = vectors @ vector
        estimates = cosines + error * random.uniform(-1, 1, COUNT).astype(np.float32)
        order = np.argsort(-estimates)
        found, scores = _score(
            connection, Collection.CHUNKS, Candidates(order.astype(np.int64), estimates[order]), vector, LIMIT
        )
        best = found[np.argsort(-scores, kind="stable")][:LIMIT]
        assert best.tolist() == np.argsort(-cosines, kind="stable")[:LIMIT].tolist()
        assert len(found) < COUNT or error > 0.1


def test_candidates_without_estimates_are_all_scored(connection: apsw.Connection, vectors: np.ndarray) -> None:
    keys = np.array([*range(COUNT), 1000], np.int64)
    candidates = Candidates(keys, np.full(len(keys), np.inf, np.float32))
    found, scores = _score(connection, Collection.CHUNKS, candidates, vectors[0], LIMIT)
    assert found.tolist() == list(range(COUNT))
    assert scores == pytest.approx(vectors @ vectors[0], abs=1e-6)
