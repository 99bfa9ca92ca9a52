"""What the entities of a chunk are worth where its paragraphs speak of different things."""

from __future__ import annotations

import pytest

from heliograph.ids import mention_rank, name_to_entity_id
from heliograph.models import EntityMention
from heliograph.query.fusion import worth_of_mentions
from heliograph.text.analysis import terms

TEXT = "Night Tale was directed by Wang Hai.\n\nThe Tuva live in Altai.\n \nA tale of Altai was sung by Hank."
ASIDE = 0.25


def _worth(question: str, *names: str, text: str = TEXT) -> dict[str, float]:
    mentions = [EntityMention("c", name, "thing", "", mention_rank("d", 0, is_subject=False)) for name in names]
    found = worth_of_mentions(text, mentions, set(terms(question)), ASIDE)
    return {name: found[id_] for name in names if (id_ := name_to_entity_id(name)) in found}


def test_name_counts_by_the_words_of_the_question_around_it() -> None:
    worth = _worth("Who directed the Night Tale?", "Wang Hai", "Tuva", "Hank")
    assert worth == {"Tuva": ASIDE, "Hank": pytest.approx(ASIDE + (1 - ASIDE) / 3)}


def test_best_paragraph_that_names_it_counts() -> None:
    assert _worth("Who sang the tale?", "Altai") == {}


def test_name_that_the_text_does_not_hold_loses_nothing() -> None:
    assert _worth("Who directed the Night Tale?", "Director") == {}


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("Who directed the Night Tale?", TEXT.replace("\n", " ")),
        ("Who won in 1920?", TEXT),
        ("Who directed the Night Tale?", ""),
        ("", TEXT),
    ],
    ids=["one paragraph", "no word in common", "no text", "no question"],
)
def test_nothing_loses_where_no_paragraph_is_better(question: str, text: str) -> None:
    assert _worth(question, "Wang Hai", "Tuva", text=text) == {}
