"""The walk over what was read: who is near to the best chunks, and which entities hold them together."""

from __future__ import annotations

from dataclasses import replace

from heliograph.models import EntityMention
from heliograph.query.bridges import walk
from heliograph.query.linking import LinkedEntity
from heliograph.query.plan import FusionParameters
from heliograph.stores.base import EntityPlaces

PARAMETERS = FusionParameters()
TOTALS = {"first": 1.0, "second": 0.5}
PLACES = {
    "shared": EntityPlaces("shared", 3, ("first", "second", "far"), 0),
    "alone": EntityPlaces("alone", 1, ("first",), 1),
    "hub": EntityPlaces("hub", 500, ("about", "first", "other"), 1),
}


def _mentions(chunk_id: str, *entity_ids: str) -> tuple[EntityMention, ...]:
    return tuple(EntityMention(chunk_id, id_, "thing", "", 0, id_) for id_ in entity_ids)


MENTIONS = {"first": _mentions("first", "shared", "alone", "hub"), "second": _mentions("second", "shared")}


def test_entity_of_several_chunks_comes_before_one_of_a_single_chunk() -> None:
    _, entities = walk(TOTALS, MENTIONS, PLACES, (), PARAMETERS)
    assert entities["shared"] > entities["alone"] > entities["hub"]


def test_chunks_are_reached_over_entities_and_a_common_one_leads_only_to_what_is_about_it() -> None:
    chunks, _ = walk(TOTALS, MENTIONS, PLACES, (), PARAMETERS)
    assert chunks.keys() == {"first", "second", "far", "about"}
    assert chunks["far"] > chunks["about"]


def test_named_entity_is_reached_though_no_chunk_that_was_read_mentions_it() -> None:
    places = PLACES | {"named": EntityPlaces("named", 1, ("elsewhere",), 1)}
    linked = LinkedEntity("named", "Named", 0, 5, ("elsewhere",))
    chunks, entities = walk(TOTALS, MENTIONS, places, [linked], PARAMETERS)
    assert entities["named"] > entities["alone"]
    assert chunks["elsewhere"] > 0


def test_only_the_best_chunks_and_entities_of_known_places_count() -> None:
    mentions = MENTIONS | {"second": _mentions("second", "unread")}
    _, entities = walk(TOTALS, mentions, PLACES, (), replace(PARAMETERS, walk_starts=1))
    assert entities.keys() == {"shared", "alone", "hub"}


def test_chunks_without_a_score_give_nothing() -> None:
    chunks, entities = walk({"first": 0.0}, MENTIONS, PLACES, (), PARAMETERS)
    assert not chunks
    assert not entities
