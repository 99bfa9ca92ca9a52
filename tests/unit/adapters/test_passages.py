from __future__ import annotations

import pytest

from heliograph.adapters.passages import PassageOptions, PassageSource, read_haystack_filter
from heliograph.errors import InvalidRequestError
from heliograph.filters import parse_filter
from heliograph.sync import Heliograph
from heliograph.testing.fakes import FakeEmbeddingModel

from .conftest import QUESTION


def test_passages_carry_where_they_stand_and_how_they_were_found(folder: str) -> None:
    source = PassageSource(PassageOptions(folder, mode="fusion"))
    found = source.find(QUESTION)
    team = next(item for item in found if item.metadata["source"] == "team.md")
    assert team.metadata["title"] == "Team"
    assert team.metadata["headings"] == ["Team"]
    assert team.metadata["end"] - team.metadata["start"] == len(team.text)
    assert team.score == pytest.approx(sum(team.metadata["scores"].values()))
    assert team.metadata["found_by"]
    assert source.find(QUESTION, mode="naive")[0].score is None
    source.close()


def test_options_of_a_call_win_over_those_of_the_source(folder: str) -> None:
    source = PassageSource(PassageOptions(folder, mode="naive", filter={"team": "red"}))
    assert {item.metadata["source"] for item in source.find(QUESTION)} == {"team.md"}
    assert {item.metadata["source"] for item in source.find(QUESTION, filter={"team": "blue"})} == {"town.md"}
    assert len(source.find(QUESTION, chunk_top_k=1)) == 1
    with pytest.raises(InvalidRequestError, match="'k'"):
        source.find(QUESTION, k=1)
    source.close()
    assert source.find(QUESTION)  # Opened again.
    source.close()


def test_open_workspace_stays_the_callers(folder: str) -> None:
    with Heliograph(folder, embedding=FakeEmbeddingModel(16)) as kb:
        source = PassageSource(PassageOptions(mode="naive"), kb)
        assert source.find(QUESTION)
        source.close()
        assert kb.stats().chunks
        with pytest.raises(InvalidRequestError, match="data_dir"):
            source.check_plain()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"field": "meta.team", "operator": "==", "value": "red"}, {"team": "red"}),
        ({"field": "meta.team", "operator": "!=", "value": "red"}, {"team": {"ne": "red"}}),
        ({"field": "year", "operator": ">=", "value": 2020}, {"year": {"gte": 2020}}),
        ({"field": "meta.team", "operator": "not in", "value": ["red"]}, {"not": {"team": ["red"]}}),
        ({"team": "red"}, {"team": "red"}),
    ],
)
def test_filters_of_haystack_mean_the_same(given: dict[str, object], meant: dict[str, object]) -> None:
    assert parse_filter(read_haystack_filter(given)) == parse_filter(meant)
    for operator, ours in (("AND", {"and": [meant, meant]}), ("OR", {"or": [meant, meant]})):
        both = {"operator": operator, "conditions": [given, given]}
        assert parse_filter(read_haystack_filter(both)) == parse_filter(ours)
    none = {"operator": "NOT", "conditions": [given]}
    assert parse_filter(read_haystack_filter(none)) == parse_filter({"not": {"and": [meant]}})


def test_operator_that_haystack_has_not_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="'like'"):
        read_haystack_filter({"field": "meta.team", "operator": "like", "value": "r"})
