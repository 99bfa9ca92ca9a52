from __future__ import annotations

import pytest

from heliograph.documents.sources import matches_any


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.md", "a.md", True),
        ("*.md", "sub/a.md", True),
        ("*.md", "a.mdx", False),
        ("**/*.md", "a.md", True),
        ("**/*.md", "x/y/a.md", True),
        ("sub/*.md", "sub/a.md", True),
        ("sub/*.md", "sub/deep/a.md", False),
        ("sub/*.md", "x/sub/a.md", False),
        ("/a.md", "a.md", True),
        ("/a.md", "sub/a.md", False),
        ("drafts", "x/drafts/a.md", True),
        ("drafts/", "x/drafts/a.md", True),
        ("drafts/", "drafts", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b/c.md", True),
        ("a?c.md", "abc.md", True),
        ("a?c.md", "a/c.md", False),
        ("[ab].md", "b.md", True),
        ("[!ab].md", "b.md", False),
        ("[!ab].md", "c.md", True),
        ("a[.md", "a[.md", True),
        ("a+(b).md", "a+(b).md", True),
        ("*.md", "new\nline.md", True),
        ("", "a.md", False),
        ("/", "a.md", False),
    ],
)
def test_pattern_matches_as_in_gitignore(pattern: str, path: str, matches: bool) -> None:
    assert matches_any(path, [pattern]) is matches


def test_no_pattern_matches_nothing() -> None:
    assert not matches_any("a.md", [])
