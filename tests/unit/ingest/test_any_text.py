"""Whatever a text looks like, it is cut into its own characters and read without a failure."""

from __future__ import annotations

import os
import random
import sysconfig
from collections.abc import Iterable
from functools import cache
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.documents.encoding import decode_text
from heliograph.documents.markdown import find_title
from heliograph.errors import IngestError
from heliograph.extraction.base import canonical_extraction, with_introduced_aliases
from heliograph.extraction.local import LocalExtractor
from heliograph.ids import content_hash
from heliograph.ingest.chunking import make_chunker
from heliograph.ingest.intake import clean_pages
from heliograph.ingest.merging import mention_delta
from heliograph.ingest.reading import StoredChunks, plan_chunks
from heliograph.models import Document
from heliograph.settings import IngestSettings
from heliograph.testing.fakes import FakeEmbeddingModel

# How many times as much is tried as in passing.
THOROUGHNESS = int(os.environ.get("HELIOGRAPH_TEST_EXAMPLES", "1"))
FOLDERS = (Path("/usr/share/doc"), Path(sysconfig.get_paths()["stdlib"]))
_MOST_BYTES = 60_000
_FILES = 24

_MARKS = [
    *("# ", "## Heading one", "###### ", "#", "====", "---", "- ", "* ", "1. ", "> ", "| a | b |", "|---|---|", "```"),
    *("~~~", "```py", "    ", "\t", "}", "{", "[", "](", "](http://x.y/z)", "<b>", "</div>", "&amp;", "**", "*", "_"),
    *("`", "`code()`", "\\", "$x$", "[^1]", "[1]: ", "http://example.org/a_b", "a.b@c.org", "...", "–", "—", "…"),
]
_WORDS = [
    *("The", "the", "A", "is", "is a", "was", "of", "in", "and", "He", "She", "It", "or", "also", "known as"),
    *(
        "Ada Pell",
        "Dr. Ada",
        "NASA",
        "ESP32-S3",
        "MQTT (Message Queuing Telemetry Transport)",
        "(MQTT)",
        "U.S.",
        "e.g.",
    ),
    *(
        "quick brown fox",
        "river bank",
        "1938",
        "3.14",
        "$5",
        "100%",
        "v1.2.3",
        "x86_64",
        "__init__",
        "foo.bar()",
        "C++",
    ),
    *(
        "O'Neill",
        "l’été",
        "Straße",
        "ßß",
        "İstanbul",
        "ǅ",
        "ﬁne",
        "naïve",
        "Москва",
        "東京",
        "とうきょう",
        "서울",
        "ไทย",
    ),
    *(
        "柳江",
        "柳江。柳江的主要支流是寨蒿河",
        "《红楼梦》",
        "“引号”",
        "是",
        "是一种",
        "（又称",
        "）",
        "，",
        "。",
        "：",
        "、",
    ),
    *('"', "'", "“", "”", "«", "»", "(", ")", ",", ".", ";", ":", "!", "?", "¿", "=", "+", "/", "@", "&"),
    *("\u200b", "\ufeff", "\u00ad", "\u202e", "\u0301", "\U0001f600", "\U00020000", "\x0b", "\x85", "\u2028"),
    *("\xa0", "\u3000", "﷽", "\ue000", "\ufffd", "０", "Ⅳ", "½", "²", "K", "ſ"),
]
_PIECES = st.one_of(
    st.sampled_from(_MARKS),
    st.sampled_from(_WORDS),
    st.sampled_from([" ", " ", "\n", "\n", "\n\n", "\n\n\n", "\r\n", ""]),
    st.text(max_size=6),
)
_TEXTS = st.one_of(
    st.lists(_PIECES, max_size=60).map("".join),
    st.lists(_PIECES, max_size=60).map(" ".join),
    st.lists(st.lists(_PIECES, max_size=12).map(" ".join), max_size=12).map("\n".join),
)
_SENTENCES = st.sampled_from(
    [
        "The quick brown fox jumps over the lazy dog near the river bank today.",
        "Canon law is the body of rules of a church.",
        "柳江是西江的支流，流经柳州。",
        "- Ada Pell: keeps the lamp",
        "| lamp | lens |\n|---|---|\n| 1 | 2 |",
        "```\nlamp = 1\n```",
    ]
)
_HEADINGS = st.tuples(st.sampled_from(["# ", "## ", "### "]), st.sampled_from(_WORDS)).map("".join)
_BLOCKS = st.one_of(_SENTENCES, _HEADINGS, st.sampled_from(_MARKS), st.sampled_from(_WORDS), _PIECES)
# As documents are built: lines of their own, paragraphs and headings, in any order.
_DOCUMENTS = st.lists(st.tuples(_BLOCKS, st.sampled_from(["\n", "\n\n"])).map("".join), max_size=8).map("".join)
_SIZES = st.sampled_from([{}, {"chunk_tokens": 16, "overlap_tokens": 4}, {"chunk_tokens": 60, "overlap_tokens": 0}])
_CHUNKING = st.sampled_from(["semantic", "markdown", "tokens"])
_SPLITS = st.sampled_from(["", "\n\n", ". ", "#"])


def read(text: str, **chosen: object) -> None:
    """Take a text as far as a commit does, but for what is shared by all documents."""
    try:
        text, _ = clean_pages(text, (), "any.md")
    except IngestError:
        return
    ingest = IngestSettings.model_validate({"chunking": "semantic", **chosen})
    chunker = make_chunker(ingest, FakeEmbeddingModel(16).info, extracts_by_chat=False)
    chunks = chunker.chunk("doc-1", text, ())
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip()
    document = Document("doc-1", "notes/any.md", find_title(text) or "any", content_hash(text))
    extractor = LocalExtractor()
    contexts = extractor.contexts(document, chunks)
    found = extractor._read_window(document, chunks, contexts)
    canonical = [canonical_extraction(item) for item in found]
    whole = [with_introduced_aliases(item, chunk) for item, chunk in zip(canonical, chunks, strict=True)]
    assert [item.chunk_id for item in whole] == [chunk.id for chunk in chunks]
    mention_delta((), whole)
    plan_chunks(document.title, chunks, StoredChunks(), keeps_readings=False)


@settings(max_examples=200 * THOROUGHNESS)
@given(st.one_of(_DOCUMENTS, _TEXTS), _CHUNKING, _SIZES, _SPLITS)
def test_any_markdown_is_read(text: str, chunking: str, sizes: dict[str, int], split_by: str) -> None:
    read(text, chunking=chunking, split_by=split_by, **sizes)


@settings(max_examples=30 * THOROUGHNESS)
@given(st.text(max_size=400))
def test_any_characters_are_read(text: str) -> None:
    read(text)


@pytest.mark.parametrize(
    "text",
    [
        "}\nThe quick brown fox jumps over the lazy dog near the river bank today.\n\n# Heading one\n",
        "x\n\n# Heading one\n\n# Heading two",
        "# \n\n#\n\n# A",
        "#",
    ],
)
def test_text_that_once_failed_is_read(text: str) -> None:
    read(text)


@cache
def _files() -> list[Path]:
    found: Iterable[Path] = chain.from_iterable(folder.rglob("*") for folder in FOLDERS if folder.is_dir())
    suffixes = {".txt", ".md", ".rst", ".html", ".py", ".c", ".pl", ".json", ".xml", ""}
    files = [path for path in sorted(found) if path.suffix in suffixes and path.is_file() and not path.is_symlink()]
    return random.Random(1).sample(files, min(len(files), _FILES * THOROUGHNESS))


def test_texts_of_this_machine_are_read() -> None:
    for path in _files():
        data = path.read_bytes()[:_MOST_BYTES]
        if b"\0" in data:
            continue
        try:
            text = decode_text(data, str(path))
        except IngestError:
            continue
        for chunking in ("semantic", "markdown"):
            try:
                read(text, chunking=chunking)
            except Exception as error:
                error.add_note(f"in {path}, {chunking}")
                raise
