"""The bridge: which pairs are followed, and what a chunk gains over them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.ids import mention_rank, name_to_entity_id
from heliograph.models import EntityEvidence, EntityMention
from heliograph.query.bridges import (
    FollowedBridge,
    Gain,
    Nearness,
    Start,
    Wanted,
    best_gains,
    follow_bridges,
    gains,
    promising,
    residual_question,
    widen,
)
from heliograph.query.plan import FusionParameters
from heliograph.stores.base import EntityPlaces, places_of
from heliograph.text.analysis import terms

PARAMETERS = FusionParameters()
WANTED = Wanted("who sang it?", frozenset(terms("Who sang it?")), frozenset())
BRIDGE = FollowedBridge("p", "e", "Hank", 1.0, 3.0, 2, ("t",), ("t", "u"))


def _mention(chunk: str, name: str, *, is_subject: bool = False, said: str = "") -> EntityMention:
    return EntityMention(chunk, name, "thing", said, mention_rank(chunk, 0, is_subject=is_subject))


def _places(*mentions: EntityMention, count: int = 0) -> dict[str, EntityPlaces]:
    id_ = name_to_entity_id(mentions[0].name)
    leading = tuple(sorted(mentions, key=lambda mention: mention.rank))
    return {id_: places_of(EntityEvidence(id_, {}, {}, count or len(mentions), leading, 1), 600)}


def _follow(places: dict[str, EntityPlaces], *mentions: EntityMention, named: str = "") -> list[FollowedBridge]:
    start = Start("p", 1.0, mentions)
    return follow_bridges([start], places, replace(WANTED, named=frozenset({name_to_entity_id(named)})), PARAMETERS)


def test_rare_entity_leads_to_chunks_that_mention_it_or_are_about_it() -> None:
    here = _mention("p", "Hank")
    (followed,) = _follow(_places(here, _mention("t", "Hank", is_subject=True), _mention("u", "Hank")), here)
    assert followed.about == ("t",)
    assert set(followed.mentioning) == {"t", "u"}
    weights = followed.weights(PARAMETERS)
    assert weights["t"] > weights["u"] > 0


def test_common_entity_leads_only_to_chunks_about_it() -> None:
    here = _mention("p", "Hank")
    places = _places(here, _mention("t", "Hank", is_subject=True), _mention("u", "Hank"), count=500)
    (followed,) = _follow(places, here)
    assert followed.weights(PARAMETERS).keys() == {"t"}


def test_entity_named_in_the_question_is_followed_later() -> None:
    here = _mention("p", "Hank")
    places = _places(here, _mention("t", "Hank", is_subject=True))
    (named,) = _follow(places, here, named="Hank")
    (other,) = _follow(places, here)
    assert named.order < other.order


def test_entity_named_aside_leads_on_with_less_weight_and_later() -> None:
    here = _mention("p", "Hank")
    places = _places(here, _mention("t", "Hank", is_subject=True))
    start = Start("p", 1.0, (here,), worth={name_to_entity_id("Hank"): 0.25})
    (aside,) = follow_bridges([start], places, WANTED, PARAMETERS)
    (other,) = _follow(places, here)
    assert aside.weight == pytest.approx(other.weight / 4)
    assert aside.order == pytest.approx(other.order / 4)


def test_text_that_holds_a_name_widens_its_bridge() -> None:
    lone = replace(BRIDGE, mention_count=1, about=(), mentioning=())
    assert widen([lone], [["p"]], PARAMETERS) == []
    (wider,) = widen([lone], [["p", "t"]], PARAMETERS)
    assert wider.mentioning == ("t",)


def test_name_held_by_too_many_texts_leads_only_to_chunks_about_it() -> None:
    many = [f"c{number}" for number in range(PARAMETERS.most_mentions + 1)]
    (kept,) = widen([BRIDGE], [many], PARAMETERS)
    assert kept.mentioning == ()
    assert kept.about == ("t",)


def _near(**cosines: float) -> Nearness:
    return Nearness(np.array([list(cosines.values())], np.float32), {id_: at for at, id_ in enumerate(cosines)})


def test_chunk_gains_by_how_much_nearer_it_is() -> None:
    (found,) = gains([BRIDGE], _near(u=0.0, t=1.0), {"t": 0.2, "u": 0.2}, {}, PARAMETERS)
    assert found.keys() == {"t"}
    assert found["t"].value == pytest.approx(3.0 * (1.0 - 0.2 - PARAMETERS.least_gain))


def test_chunk_that_was_not_compared_gains_nothing() -> None:
    assert gains([BRIDGE], Nearness(np.zeros((1, 0), np.float32), {}), {}, {}, PARAMETERS) == [{}]
    (found,) = gains([BRIDGE], _near(u=1.0), {"u": 0.2}, {}, PARAMETERS)
    assert found.keys() == {"u"}


@given(st.floats(-1, 1), st.floats(-1, 1))
def test_gain_is_never_negative_and_bounded(cosine: float, known: float) -> None:
    (found,) = gains([BRIDGE], _near(t=cosine), {"t": known}, {}, PARAMETERS)
    for gain in found.values():
        assert 0 < gain.value <= 2 * PARAMETERS.bridge_weight + 1e-6


def test_chunk_gains_no_more_than_brings_it_up_to_the_one_its_bridge_starts_from() -> None:
    (found,) = gains([BRIDGE], _near(t=1.0), {"t": 0.2}, {"p": 0.9, "t": 0.5}, PARAMETERS)
    assert found["t"].value == pytest.approx(0.4)
    assert gains([BRIDGE], _near(t=1.0), {"t": 0.2}, {"p": 0.5, "t": 0.6}, PARAMETERS) == [{}]


def _gained(**values: float) -> dict[str, Gain]:
    return {chunk_id: Gain(value, BRIDGE) for chunk_id, value in values.items()}


def test_residual_questions_are_embedded_only_where_they_may_bring_a_chunk_to_the_front() -> None:
    scores = {"a": 1.0, "b": 0.8, "c": 0.7, "d": 0.6, "e": 0.5, "t": 0.1, "u": 0.1}
    assert promising([_gained(t=0.1), _gained(u=0.4), {}, _gained(t=0.6)], scores, PARAMETERS) == [1, 3]
    assert promising([_gained(t=0.1)], scores, PARAMETERS) == []


def test_of_many_promising_bridges_the_best_are_embedded() -> None:
    gained = [_gained(t=0.5 + place / 100) for place in range(10)]
    assert promising(gained, {"p": 1.0}, replace(PARAMETERS, residual_limit=3)) == [7, 8, 9]


def test_where_bridges_count_less_fewer_residual_questions_are_embedded() -> None:
    assert [PARAMETERS.weighed(share).residual_limit for share in (1.0, 0.5, 0.3)] == [4, 2, 1]


def test_chunk_counts_with_its_best_gain() -> None:
    best = best_gains([_gained(t=0.2, u=0.1), _gained(t=0.3)])
    assert {chunk_id: gain.value for chunk_id, gain in best.items()} == {"t": 0.3, "u": 0.1}


def test_less_of_a_gain_is_chance_the_further_the_first_chunk_leads() -> None:
    assert PARAMETERS.where_led(0.0) == PARAMETERS
    assert PARAMETERS.where_led(1.0).least_gain == 0.0
    assert 0.0 < PARAMETERS.where_led(PARAMETERS.clear_lead / 2).least_gain < PARAMETERS.least_gain


def test_residual_question_drops_subjects_and_names_the_entity() -> None:
    assert residual_question("Who directed hello (love)?", ["Hello (Love)"], "Hank") == "Who directed ? Hank"


def test_residual_question_of_letters_that_lengthen_in_lower_case() -> None:
    assert residual_question("Who rules İzmir, and Ankara?", ["Ankara"], "X") == "Who rules İzmir, and ? X"
