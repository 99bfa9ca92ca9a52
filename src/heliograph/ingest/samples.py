"""The sample documents that come with the package: a handbook and a story, each in English and Chinese."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from heliograph.ingest.models import NewDocument


def find_samples() -> list[NewDocument]:
    """Return the sample documents; their sources are paths below the folder of samples."""
    root = files("heliograph") / "samples"
    return [NewDocument(item.read_text("utf-8"), source) for source, item in _markdown_files(root, "")]


def _markdown_files(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            yield from _markdown_files(item, f"{prefix}{item.name}/")
        elif item.name.endswith(".md"):
            yield f"{prefix}{item.name}", item
