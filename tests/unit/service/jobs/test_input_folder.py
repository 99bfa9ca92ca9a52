from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heliograph.errors import ConflictError, InvalidRequestError
from heliograph.service.jobs.input_folder import InputFolder, checked_name

HARD = st.sampled_from(["..", "/", "\\", "\0", ".", " ", "\u202e", "\uff0f", "\u2024", "CON", ":", "\n", "~", "é", "a"])


@given(
    st.lists(st.one_of(HARD, st.characters()), max_size=12).map("".join), st.sampled_from([".md", ".MD", "", ".exe"])
)
@example("..", ".md")
@example("a/../../b", ".md")
@example("\ud800", ".md")
def test_accepted_name_is_one_plain_file_below_any_folder(stem: str, ending: str) -> None:
    try:
        name = checked_name(stem + ending)
    except InvalidRequestError:
        return
    path = Path(os.path.normpath(f"/inputs/{name}"))
    assert (str(path.parent), path.name) == ("/inputs", name)
    assert not name.startswith(".")
    assert len(os.fsencode(name)) < 255
    assert "\0" not in name
    assert checked_name(name) == name


@pytest.mark.parametrize("source", ["", "..", "../a.md", "/etc/passwd", "a\0b", "sub/../../a.md", "missing.md", "sub"])
def test_source_outside_of_the_folder_is_not_found(tmp_path: Path, source: str) -> None:
    folder = InputFolder(tmp_path / "inputs")
    (folder.path / "sub").mkdir(parents=True)
    (tmp_path / "a.md").write_text("outside")
    assert folder.find(source) is None
    assert not folder.remove(source)
    assert (tmp_path / "a.md").exists()


def test_link_that_leads_out_is_not_followed_to_a_removal(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("outside")
    folder = InputFolder(tmp_path / "inputs")
    folder.path.mkdir()
    (folder.path / "link").symlink_to(outside)
    assert folder.find("link/a.md") is None
    folder.clear()
    assert (outside / "a.md").exists()


def test_what_a_link_leads_out_to_is_not_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.md").write_text("outside")
    folder = InputFolder(tmp_path / "inputs")
    folder.path.mkdir()
    (folder.path / "folder").symlink_to(outside)
    (folder.path / "file.md").symlink_to(outside / "a.md")
    (folder.path / "own.md").write_text("inside")
    (folder.path / "again").symlink_to(folder.path)
    assert list(folder.files()) == ["own.md"]
    assert folder.find("file.md") is None
    assert folder.find("again/own.md") is not None


def test_input_folder_may_be_a_link_itself(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a.md").write_text("inside")
    (tmp_path / "inputs").symlink_to(tmp_path / "elsewhere")
    folder = InputFolder(tmp_path / "inputs")
    assert list(folder.files()) == ["a.md"]
    assert folder.find("a.md") is not None


def begun(folder: InputFolder, name: str, data: bytes) -> BinaryIO:
    part = folder.begin(name)
    part.write(data)
    return part


def test_upload_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = InputFolder(tmp_path / "inputs")
    part, rival = begun(folder, "a.md", b"one two"), begun(folder, "a.md", b"other")
    assert folder.files() == {}
    assert folder.finish(part, "a.md")
    assert folder.path.joinpath("a.md").read_bytes() == b"one two"
    assert folder.finish(rival, "a.md")
    assert folder.path.joinpath("a.md").read_bytes() == b"other"
    same, more = begun(folder, "a.md", b"other"), begun(folder, "a.md", b"more")
    assert not folder.finish(same, "a.md")
    for ended in (part, rival, same):
        folder.end(ended)
    assert list(folder.files()) == ["a.md"]
    assert folder.clear() == 1
    assert list(folder.path.iterdir()) == [Path(more.name)]
    folder.end(more)
    assert list(folder.path.iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_upload_takes_the_place_of_files_only(tmp_path: Path, kind: str) -> None:
    folder = InputFolder(tmp_path / "inputs")
    part, target = begun(folder, "a.md", b"other"), folder.path / "a.md"
    if kind == "folder":
        target.mkdir()
    else:
        (tmp_path / "secret.md").write_bytes(b"secret")
        target.symlink_to(tmp_path / "secret.md")
    for act in (lambda: folder.finish(part, "a.md"), lambda: folder.begin("a.md")):
        with pytest.raises(ConflictError, match="folder or a link"):
            act()
    folder.end(part)
    assert kind == "folder" or (tmp_path / "secret.md").read_bytes() == b"secret"


def test_what_a_dead_process_left_is_dropped_after_a_day(tmp_path: Path) -> None:
    folder = InputFolder(tmp_path / "inputs")
    old, new = begun(folder, "a.md", b"x"), begun(folder, "b.md", b"x")
    os.utime(old.name, (1, 1))
    newest = folder.begin("c.md")
    assert set(folder.path.iterdir()) == {Path(new.name), Path(newest.name)}
    for part in (old, new, newest):
        folder.end(part)


def test_refusal_of_a_kind_says_which_are_read_but_not_every_section_of_manual_pages() -> None:
    with pytest.raises(InvalidRequestError, match=r"known endings: \.adoc, .*\.pdf, .*\.zsh, \.1 to \.9$") as refused:
        checked_name("lamp.bin")
    assert ".3perl" not in str(refused.value)
