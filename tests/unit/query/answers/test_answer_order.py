from __future__ import annotations

import pytest

from heliograph.models import Chunk
from heliograph.query.answers.quotables import quotable_sentences
from heliograph.query.answers.sentence_ranking import choose, shortlist
from heliograph.query.models import RetrievedChunk


def _quoted(question: str, documents: dict[str, str], scores: dict[str, dict[str, float]] | None = None) -> list[str]:
    """Return what is quoted of documents given as text by title, best first."""
    chunks = [
        RetrievedChunk(
            Chunk(f"chunk-{title}", title, 0, text, 9, 0, len(text)),
            title,
            title,
            (),
            None,
            (scores or {}).get(title, {}),
        )
        for title, text in documents.items()
    ]
    titles = {title: title for title in documents}
    return [item.shown for item in choose(shortlist(question, quotable_sentences(chunks), titles), 5)]


def test_answer_of_two_steps_comes_before_the_sentence_that_leads_to_it() -> None:
    quoted = _quoted(
        "Who is the mother of the director of the film Lantern Bay?",
        {
            "Lantern Bay (film)": "Lantern Bay is a 1950 film directed by Karl Holm.",
            "Karl Holm": "Karl Holm was a painter. His mother was the singer Ida Falk.",
        },
    )
    assert quoted[:2] == [
        "Karl Holm was a painter. His mother was the singer Ida Falk.",
        "Lantern Bay is a 1950 film directed by Karl Holm.",
    ]


def test_answer_of_two_steps_comes_first_in_chinese() -> None:
    quoted = _quoted(
        "请问灯塔之歌的作者的国籍是什么？",
        {"灯塔之歌": "灯塔之歌的作者是安娜贝尔。", "安娜贝尔": "安娜贝尔的国籍是挪威。"},
    )
    assert quoted == ["安娜贝尔的国籍是挪威。", "灯塔之歌的作者是安娜贝尔。"]


def test_sentence_that_answers_alone_stays_first() -> None:
    quoted = _quoted(
        "When was the lighthouse of Lantern Bay built?",
        {
            "Lantern Bay": "The lighthouse of Lantern Bay was built in 1921 by Karl Holm.",
            "Karl Holm": "Karl Holm died in 1950. He was a tall man.",
        },
    )
    assert quoted[0].startswith("The lighthouse of Lantern Bay was built in 1921")


def test_title_alone_is_not_quoted_beside_sentences() -> None:
    assert _quoted("Who keeps Lantern Bay?", {"Lantern Bay": "Lantern Bay.\n\nAnna keeps Lantern Bay."}) == [
        "Anna keeps Lantern Bay."
    ]
    assert _quoted("Who keeps Lantern Bay?", {"Lantern Bay": "Lantern Bay."}) == ["Lantern Bay."]


_SINGERS = {
    "Ida Falk": "Ida Falk (born 4 May 1931) is a singer. She likes tea.",
    "Karl Holm": "Karl Holm (3 June 1921 – 5 July 1980) was a singer. He liked coffee.",
    "Eva Lind": "Eva Lind died in 1975. She was a singer of tea songs.",
}


def test_comparison_quotes_each_side_and_the_winner_first() -> None:
    born = _quoted("Who was born first, Ida Falk or Karl Holm?", _SINGERS)
    assert [quote.split(" (")[0] for quote in born[:2]] == ["Karl Holm", "Ida Falk"]
    younger = _quoted("Who is younger, Karl Holm or Ida Falk?", _SINGERS)
    assert [quote.split(" (")[0] for quote in younger[:2]] == ["Ida Falk", "Karl Holm"]
    died = _quoted("Which singer died later, Eva Lind or Karl Holm?", _SINGERS)
    assert died[0].startswith("Karl Holm")
    assert died[1].startswith("Eva Lind")


def test_comparison_reads_years_of_persons_that_the_sides_name() -> None:
    films = {
        "Blue Rock (1960 film)": "Blue Rock is a 1960 film directed by Karl Holm.",
        "Red Sea": "Red Sea is a 1955 film directed by Ida Falk.",
    }
    by_director = _quoted("Which film has the director who was born first, Red Sea or Blue Rock?", films | _SINGERS)
    assert by_director[0].startswith("Blue Rock")
    by_release = _quoted("Which film was released first, Blue Rock or Red Sea?", films | _SINGERS)
    assert by_release[0].startswith("Red Sea")


def test_comparison_that_no_year_decides_still_quotes_each_side() -> None:
    quoted = _quoted("Who likes tea more, Ida Falk or Karl Holm?", _SINGERS)
    assert {quote.split(" (")[0] for quote in quoted[:2]} == {"Ida Falk", "Karl Holm"}


def test_comparison_in_chinese_puts_the_earlier_first() -> None:
    quoted = _quoted(
        "海湾灯塔还是北角灯塔更早建成？",
        {"海湾灯塔": "海湾灯塔于1950年建成。", "北角灯塔": "北角灯塔于1921年建成。"},
    )
    assert quoted == ["北角灯塔于1921年建成。", "海湾灯塔于1950年建成。"]


def test_bridged_chunk_wins_over_the_chunk_that_led_to_it() -> None:
    documents = {
        "Lantern Bay": "The light of Lantern Bay was lit by the keeper.",
        "Keepers": "She was given the Order of the Sea as a medal. Keepers live long.",
    }
    scores = {"Lantern Bay": {"vector": 0.5, "keyword": 0.2}, "Keepers": {"vector": 0.3, "bridge": 0.35}}
    quoted = _quoted("What medal was the person given who lit the light of Lantern Bay?", documents, scores)
    assert quoted[0] == "She was given the Order of the Sea as a medal."


def test_question_of_one_step_is_answered_by_the_document_that_it_names() -> None:
    countries = {
        "Germany": "Germany is a country in Europe. The capital of Germany is Berlin. It lies beside France.",
        "France": "France is a country in Europe. The capital of France is Paris. It lies beside Germany.",
        "Spain": "Spain is a country in Europe. The capital of Spain is Madrid. It lies beside France.",
    }
    scores = {"Germany": {"vector": 0.9}, "France": {"vector": 0.8, "bridge": 0.1}, "Spain": {"vector": 0.7}}
    for country, capital in (("Germany", "Berlin"), ("France", "Paris"), ("Spain", "Madrid")):
        quoted = _quoted(f"What is the capital of {country}?", countries, scores)
        assert f"The capital of {country} is {capital}." in quoted[0]


@pytest.mark.parametrize("title", ["Mill X", "The Who", "1"])
def test_title_that_the_question_only_seems_to_say_changes_nothing(title: str) -> None:
    quoted = _quoted(
        "Who signed the charter of Riverton in 1921?",
        {
            title: "Ida Falk signed the charter of Riverton in 1921, and Karl Holm saw it.",
            "Karl Holm": "Karl Holm signed the charter of Milton.",
        },
    )
    assert quoted[0].startswith("Ida Falk signed the charter of Riverton")


def test_side_of_a_comparison_is_no_part_of_another_word() -> None:
    quoted = _quoted(
        "Which is faster, Go or C?",
        {"notes": "Documents accumulate. C runs faster than Go does. Programs in Go are faster to write."},
    )
    assert "Documents accumulate." not in quoted[:2]
