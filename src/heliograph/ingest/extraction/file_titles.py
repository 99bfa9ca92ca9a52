"""Whether a document's title is one that somebody gave, or only what its file is called.

A document without heading and stated title is called by the end of its source. "Apollo 11.txt" is a title all the same;
"scan_0001.pdf", "report-final-v2.docx" and "3f2a9c8d.txt" name a file, and nobody asks about them.

Who called it so is not known: a title that equals the name of its file counts as that name, even if somebody gave it.
So "1984" is none for "1984.txt", nor is "The Book" for "The Book.txt".
"""

from __future__ import annotations

import re
from pathlib import PurePath

from heliograph.documents.finishing import name_title
from heliograph.models import Document
from heliograph.text.language import HAN
from heliograph.text.word_lists import word_list

__all__ = ["spoken_title"]

_WORD = re.compile(rf"[{HAN}]+|[^\W\d_{HAN}]+")
# Digests, ids and what cameras and programs number.
_HASH = re.compile(r"(?=\D*\d)[0-9A-Fa-f]{8,}(?:-[0-9A-Fa-f]{4,})*")
_MIXED = re.compile(r"(?:[A-Za-z]+\d+){3,}[A-Za-z]*|(?:\d+[A-Za-z]+){3,}\d*")
_SHORTEST_MIXED = 8
# What is named by an address keeps its ending in the title.
_ENDING = re.compile(r"\.[a-z]\w{1,4}$")
_FILE_WORDS = word_list("file_name_words")


def spoken_title(document: Document) -> str:
    """Return the title of a document as far as people would say it: empty where it is only the name of a file."""
    title, source = document.title, document.source
    if title not in (PurePath(source).stem, source.rpartition("/")[2], name_title(source)):
        return title
    return title if _reads_as_title(_ENDING.sub("", title)) else ""


def _reads_as_title(name: str) -> bool:
    if _HASH.fullmatch(name) or (len(name) >= _SHORTEST_MIXED and _MIXED.fullmatch(name)):
        return False
    words = _WORD.findall(name)
    if all((len(word) == 1 and word.islower()) or word.casefold() in _FILE_WORDS for word in words):
        return False
    # One word in small letters, however it is joined, is how files are called, and no title; not all scripts have such.
    return " " in name or name != name.lower() or any(c.isalpha() and c.lower() == c.upper() for c in name)
