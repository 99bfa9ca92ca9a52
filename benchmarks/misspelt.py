"""R@5 of questions as they are, and with a slip of the finger in each of two names, fused and by vector alone.

In each question up to two capitalised words of five letters or more, not the first word, lose a letter, double one, or
swap two that follow one another; which, a seed decides. Sets, indexes and `data=FOLDER` are those of `sensitivity`.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from random import Random

from benchmarks.ranked_set import open_ranked_set, wanted_sets
from benchmarks.registry import Options
from benchmarks.report import Figure, Findings

__all__ = ["TITLE", "run"]

TITLE = "Questions that misspell names"

_DEFAULT = ("hotpotqa_train100", "musique_train100")
_WORD = re.compile(r"(?<=\s)[A-Z][a-z]{4,}\b")
_SLIPS = 2


def run(options: Options) -> Findings:
    """Measure each set, as written and misspelt."""
    folders, data = wanted_sets(options, _DEFAULT)
    figures = [figure for folder in folders for figure in asyncio.run(_measure(folder, data, options.quick))]
    return Findings(tuple(figures), ())


async def _measure(folder: Path, data: Path | None, is_quick: bool) -> list[Figure]:
    async with open_ranked_set(folder, data, is_quick) as ranked:
        return [
            Figure(f"{ranked.name}: {way}, {words}", await recall(said=said), "%")
            for way, recall in (("fused", ranked.recall), ("by vector", ranked.recall_by_vector))
            for words, said in (("as written", str), ("misspelt", misspell))
        ]


def misspell(question: str) -> str:
    """Return a question with a slip in up to two of its names."""
    random = Random(question)
    words = list(_WORD.finditer(question))
    for word in sorted(random.sample(words, min(_SLIPS, len(words))), key=re.Match.start, reverse=True):
        question = question[: word.start()] + _slip(word.group(), random) + question[word.end() :]
    return question


def _slip(word: str, random: Random) -> str:
    place = random.randrange(1, len(word) - 1)
    before, here, following, after = word[:place], word[place], word[place + 1], word[place + 2 :]
    lost, doubled, swapped = following, 2 * here + following, following + here
    return before + random.choice((lost, doubled, swapped)) + after
