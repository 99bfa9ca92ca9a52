from __future__ import annotations

import multiprocessing
import os
import stat
from pathlib import Path

import pytest

from heliograph.embedding.e5.weights import ArtefactCache


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def test_artefact_is_made_once(tmp_path: Path) -> None:
    made: list[bytes] = []

    def make() -> bytes:
        made.append(b"content")
        return b"content"

    for _ in range(3):
        assert ArtefactCache(tmp_path / "new" / "folder").get("graph", make) == b"content"
    assert len(made) == 1


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:-1] + b"?", lambda data: b"", bytes.upper]
)
def test_artefact_that_is_damaged_is_made_anew(tmp_path: Path, damage) -> None:
    cache = ArtefactCache(tmp_path)
    cache.get("graph", lambda: b"content")
    path = _files(tmp_path)[0]
    assert cache.find_folder("graph") == tmp_path
    path.write_bytes(damage(path.read_bytes()))
    assert cache.find_folder("graph") is None
    assert cache.read("graph") is None
    assert cache.get("graph", lambda: b"anew") == b"anew"
    assert cache.read("graph") == b"anew"


def test_artefact_without_a_folder_is_made_each_time() -> None:
    cache = ArtefactCache(None)
    assert cache.get("graph", lambda: b"1") == b"1"
    assert cache.read("graph") is None
    assert cache.find_folder("graph") is None


def test_folder_that_cannot_be_made_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = ArtefactCache(tmp_path / "file" / "cache")
    for name in ("graph", "tokenizer"):
        assert cache.get(name, lambda: b"content") == b"content"
    assert caplog.text.count("embedding.cache_dir") == 1


def test_write_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    assert ArtefactCache(tmp_path).get("graph", lambda: b"content") == b"content"
    assert _files(tmp_path) == []
    assert "No space left" in caplog.text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_folder_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert ArtefactCache(tmp_path).get("graph", lambda: b"content") == b"content"
    assert "cannot be written" in caplog.text


def _write_many(folder: Path) -> None:
    for _ in range(30):
        ArtefactCache(folder).write("graph", b"x" * 500_000)


def test_many_processes_never_see_half_a_file(tmp_path: Path) -> None:
    writers = [multiprocessing.get_context("spawn").Process(target=_write_many, args=(tmp_path,)) for _ in range(2)]
    for writer in writers:
        writer.start()
    seen = {cache.read("graph") for cache in [ArtefactCache(tmp_path)] for _ in range(200)}
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert seen <= {None, b"x" * 500_000}
    assert len(_files(tmp_path)) == 1
