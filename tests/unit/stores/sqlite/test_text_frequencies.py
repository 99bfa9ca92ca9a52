from __future__ import annotations

from pathlib import Path

import apsw

from heliograph.stores.sqlite import text_frequencies
from heliograph.stores.sqlite.schema import migrate
from heliograph.stores.sqlite.text_frequencies import Frequencies, FrequencyMemory


def test_numbers_are_counted_once_per_data_version(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = apsw.Connection(str(path))
    migrate(connection, str(path))
    memory, counted = FrequencyMemory(), iter(range(10))
    key = ("chunks_terms", "valve")
    assert [memory.at(connection).get(key, lambda: next(counted)) for _ in range(3)] == [0, 0, 0]
    before = memory.at(connection)
    connection.execute("UPDATE meta SET value = value + 1 WHERE name = 'data_version'")
    assert memory.at(connection).get(key, lambda: next(counted)) == 1
    # Who still reads the version before keeps its numbers.
    assert before.get(key, lambda: next(counted)) == 0
    connection.close()


def test_memory_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(text_frequencies, "_MOST_KEPT", 10)
    known = Frequencies()
    assert [known.get((str(number),), lambda number=number: number) for number in range(100)] == list(range(100))
    assert len(known._known) <= 10
