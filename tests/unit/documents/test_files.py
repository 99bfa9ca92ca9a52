from __future__ import annotations

from pathlib import Path

import pytest

from heliograph.documents.sources import FileFilter, find_files
from heliograph.errors import IngestError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.md", "a.TXT", "c.markdown", "d.bin", ".hidden.md", "sub/e.md", ".git/f.md", "sub/deep/g.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    return tmp_path


def names(folder: Path, paths: list[Path]) -> list[str]:
    return [str(path.relative_to(folder)) for path in paths]


def test_folder_is_walked_in_order_without_hidden_and_other_files(folder: Path) -> None:
    assert names(folder, find_files([folder])) == ["a.TXT", "b.md", "c.markdown", "sub/deep/g.txt", "sub/e.md"]


def test_given_files_are_taken_whatever_their_ending(folder: Path) -> None:
    given = [folder / "d.bin", str(folder / ".hidden.md")]
    assert names(folder, find_files(given)) == ["d.bin", ".hidden.md"]


def test_file_reached_twice_is_returned_once(folder: Path) -> None:
    (folder / "link.md").symlink_to(folder / "b.md")
    found = find_files([folder / "sub", folder, folder / "sub" / "e.md"])
    assert names(folder, found) == ["sub/deep/g.txt", "sub/e.md", "a.TXT", "b.md", "c.markdown"]


def test_file_goes_by_its_own_path_and_not_by_that_of_a_link(folder: Path) -> None:
    (folder / "a-link.md").symlink_to(folder / "b.md")
    assert folder / "b.md" in find_files([folder])
    assert folder / "a-link.md" not in find_files([folder])
    assert find_files([folder / "a-link.md"]) == [folder / "a-link.md"]


def test_files_without_a_byte_are_passed_over_in_folders(folder: Path) -> None:
    (folder / "__init__.py").touch()
    assert folder / "__init__.py" not in find_files([folder])
    assert find_files([folder / "__init__.py"]) == [folder / "__init__.py"]


def test_links_in_a_circle_and_to_nowhere_are_passed_over(folder: Path) -> None:
    (folder / "sub" / "up").symlink_to(folder)
    (folder / "broken.md").symlink_to(folder / "nothing.md")
    assert len(find_files([folder])) == 5


def test_missing_path_is_named(folder: Path) -> None:
    with pytest.raises(IngestError, match=r"nowhere\.md"):
        find_files([folder, folder / "nowhere.md"])


def test_no_path_gives_no_file() -> None:
    assert find_files([]) == []


def test_patterns_choose_among_the_files_of_a_folder(folder: Path) -> None:
    assert names(folder, find_files([folder], FileFilter(include=["*.bin", "sub/**"]))) == [
        "d.bin",
        "sub/deep/g.txt",
        "sub/e.md",
    ]
    assert names(folder, find_files([folder], FileFilter(exclude=["deep/", "*.md"]))) == ["a.TXT", "c.markdown"]
    assert names(folder, find_files([folder / "a.TXT"], FileFilter(exclude=["*"]))) == ["a.TXT"]


def test_folder_named_like_a_file_is_walked(folder: Path) -> None:
    (folder / "x.pdf").mkdir()
    (folder / "x.pdf" / "in.md").write_text("text")
    assert "x.pdf/in.md" in names(folder, find_files([folder]))


def test_odd_names_are_found(folder: Path) -> None:
    (folder / "new\nline.md").write_text("text")
    assert "new\nline.md" in names(folder, find_files([folder]))


def test_path_that_cannot_be_one_is_refused() -> None:
    with pytest.raises(IngestError, match="no file or folder"):
        find_files(["nul\0byte"])


def test_path_that_leads_nowhere_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(IngestError) as raised:
        find_files([tmp_path / "gone.md"])
    assert str(raised.value) == f"there is no file or folder {str(tmp_path / 'gone.md')!r}; check the path"


def test_notes_that_are_told_by_their_names_are_taken(tmp_path: Path) -> None:
    for name in (
        "README",
        "NEWS.Debian.gz",
        "README.SSL",
        "OLDNEWS.gz",
        "lamp",
        "DATA.bin",
        "README.bin",
        "COPYING",
        "Makefile",
    ):
        (tmp_path / name).write_text("The lamp burns oil.")
    assert names(tmp_path, find_files([tmp_path])) == ["NEWS.Debian.gz", "OLDNEWS.gz", "README", "README.SSL"]
