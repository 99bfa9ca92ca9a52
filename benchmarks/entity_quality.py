"""How many of the entities that a reader looks at first are none, without a chat model: judged by hand.

Corpora are indexed with the local extractor and an embedding without cost: English manuals, and Chinese, German, French
and Spanish ones (pages of `benchmarks/manuals/pages.txt`; some are half translated), scraped web pages, a company's
handbook, talk, and paragraphs of an encyclopedia. Of each
are taken the 50 best connected entities, the 40 best connected persons and the 30 best connected locations.
`tests/data/judged_entities.jsonl` says which of them a person calls junk, no person or no place; a name that nobody has
judged counts for neither side, and how many there are is told.

`python -m benchmarks entity_quality`; `folder=FOLDER` keeps the packages, `show=1` prints the lists as lines to judge.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.extraction_sets import SETS, folder_of, passages
from benchmarks.manuals import fetch_pages, read_pages
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings
from heliograph import Entity, Heliograph, NewDocument

__all__ = ["TITLE", "run"]

TITLE = "Entities worth looking at"

_JUDGED = Path(__file__).parents[1] / "tests" / "data" / "judged_entities.jsonl"
# Packages of manuals, and the language of their folder where a package has several.
_MANUALS = {
    "servers": ("git-doc", "apache2-doc"),
    "databases": ("sqlite3-doc", "python-django-doc", "postgresql-doc-15"),
    "handbooks": ("gimp-help-en", "debian-handbook/en-US", "libreoffice-help-en-us"),
    "zh_manuals": ("libreoffice-help-zh-cn", "debian-handbook/zh-CN"),
    "de_manuals": ("debian-handbook/de-DE",),
    "fr_manuals": ("debian-handbook/fr-FR",),
    "es_manuals": ("debian-handbook/es-ES",),
}
# The language of which the pages are listed for a package that has them in several more.
_LISTED = "zh-CN"
_SETS = {"wild_society": 60, "musique_train100": 1000, "gitlab_handbook": 250, "lihua_world": 200}
_LISTS = (("hubs", "", 50), ("persons", "person", 40), ("locations", "location", 30))


def run(options: Options) -> Findings:
    """Index each corpus, and compare its lists with what was judged."""
    given = dict(word.split("=", 1) for word in options.arguments)
    judged = {(item["list"], item["name"]): item["ok"] for item in map(json.loads, _JUDGED.open(encoding="utf-8"))}
    figures: list[Figure] = []
    with TemporaryDirectory() as temporary:
        for corpus in _MANUALS if options.quick else (*_MANUALS, *(name for name in _SETS if (SETS / name).exists())):
            entities = _entities(corpus, Path(given.get("folder", temporary)), 12 if options.quick else None)
            for list_, kind, most in _LISTS:
                names = [entity.name for entity in entities if not kind or entity.type == kind][:most]
                figures.append(_figure(f"{corpus}: {list_} that are right", list_, names, judged))
                for name in names if "show" in given else ():
                    ok = judged.get((list_, name))
                    print(json.dumps({"corpus": corpus, "list": list_, "name": name, "ok": ok}, ensure_ascii=False))
    return Findings(tuple(figures))


def _figure(title: str, list_: str, names: Sequence[str], judged: dict[tuple[str, str], bool]) -> Figure:
    known = [judged[list_, name] for name in names if (list_, name) in judged]
    note = f"{known.count(False)} of {len(known)} are not; {len(names) - len(known)} not judged"
    return Figure(title, 100 * sum(known) / max(len(known), 1), "%", note=note)


def _entities(corpus: str, folder: Path, most: int | None) -> list[Entity]:
    with TemporaryDirectory() as home, Heliograph(home, embedding=_vectors) as engine:
        if corpus in _SETS:
            chosen = list(passages(folder_of(corpus)).values())[: _SETS[corpus]]
            engine.insert([NewDocument(item.text, f"{item.id}.md", title=item.title) for item in chosen])
        else:
            engine.insert_files([str(page) for page in _pages(corpus, folder)][:most])
        return engine.entities(limit=1_000_000)


def _pages(corpus: str, folder: Path) -> Iterator[Path]:
    wanted = [name.partition("/") for name in _MANUALS[corpus]]
    pages = [
        page
        for page in read_pages()
        if any(page[0] == package and page[1].endswith(ending) for package, _, ending in wanted)
    ]
    for package, _, language in wanted:
        if language and not any(page[1].endswith(language) for page in pages):
            listed = (page for page in read_pages() if page[0] == package and page[1].endswith(_LISTED))
            pages += [(package, below.removesuffix(_LISTED) + language, page) for _, below, page in listed]
    yield from fetch_pages(folder, pages)


def _vectors(texts: list[str]) -> np.ndarray:
    """Return vectors without meaning: which entities there are does not depend on them."""
    return np.array([[1.0, *(len(text) % number for number in (7, 11, 13))] for text in texts])
