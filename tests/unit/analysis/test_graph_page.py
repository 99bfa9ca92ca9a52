from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from heliograph.analysis.graph_page import DrawnGraph, draw_neighbourhood, draw_retrieval, to_html
from heliograph.query.models import QueryParam
from heliograph.sync import Heliograph

QUESTION = "Whom does Ann </script><img src=x onerror=alert(1)> lead?"
PARAM = QueryParam("mix", ll_keywords=("Ann", "Dora"), hl_keywords=("leads",))


def data_of(page: str) -> dict[str, object]:
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_result_is_drawn_with_ends_of_its_relations(kb: Heliograph) -> None:
    retrieval = kb.retrieve(QUESTION, PARAM)
    drawn = draw_retrieval(retrieval)
    ids = {entity["id"] for entity in drawn.entities}
    assert {item.entity.id for item in retrieval.context.entities} <= ids
    assert len(drawn.relations) == len(retrieval.context.relations)
    assert all({relation["source_id"], relation["target_id"]} <= ids for relation in drawn.relations)
    assert [chunk["text"] for chunk in drawn.chunks] == [item.chunk.text for item in retrieval.context.chunks]


def test_result_is_cut_to_a_number_of_entities_and_says_so(kb: Heliograph) -> None:
    drawn = draw_retrieval(kb.retrieve(QUESTION, PARAM), max_entities=1)
    assert len(drawn.entities) == 1
    assert drawn.relations == ()
    assert "best of more" in drawn.summary


def test_neighbourhood_is_drawn_from_its_start(kb: Heliograph) -> None:
    drawn = draw_neighbourhood(kb.neighbours("Robert", depth=2))
    assert drawn.title == "Bob"
    assert [entity["is_start"] for entity in drawn.entities] == [True, False, False]
    assert len(drawn.relations) == 2


def test_page_holds_its_data_where_no_text_can_end_it(kb: Heliograph) -> None:
    drawn = draw_retrieval(kb.retrieve(QUESTION, PARAM))
    page = to_html(drawn)
    assert page.count("</script>") == 2
    assert "<img" not in page
    assert data_of(page)["title"] == QUESTION
    lone = to_html(DrawnGraph("\ud800 $title", "", (), ()))
    assert "? $title" in lone.encode("utf-8").decode("utf-8")


def test_page_names_no_address(kb: Heliograph) -> None:
    page = to_html(draw_neighbourhood(kb.neighbours("Ann")))
    assert set(re.findall(r"\w+://[^\"'\s]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|href)=", page)


@pytest.mark.parametrize("name", ["graph.html", "graph.css", "graph.js"])
def test_parts_of_the_page_are_in_the_package(name: str) -> None:
    from heliograph.analysis import graph_page

    assert (Path(graph_page.__file__).parent / "page" / name).read_text("utf-8").endswith("\n")
