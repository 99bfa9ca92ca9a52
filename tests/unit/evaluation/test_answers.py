from __future__ import annotations

import pytest

from heliograph.evaluation.results import (
    answer_f1,
    answer_words,
    check_citations,
    exact_match,
    holds_answer,
    is_findable,
    quoted_sentences,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The  Quick, brown-fox!", ["quick", "brown", "fox"]),
        ("An apple a day", ["apple", "day"]),
        ("U.S. of 1,234 and 3.5", ["us", "of", "1234", "and", "35"]),
        ("O'Brien’s", ["obriens"]),
        ("望江钟是1843年铸的", ["望", "江", "钟", "是", "1843", "年", "铸", "的"]),
        ("", []),
    ],
)
def test_answer_words_are_normalised(text: str, words: list[str]) -> None:
    assert answer_words(text) == words


def test_exact_match_and_f1_by_hand() -> None:
    assert exact_match("The Ada Pell.", ["ada pell"]) == 1.0
    assert exact_match("Ada", ["ada pell"]) == 0.0
    # Two of three words, and both of two: precision 2/3, recall 1.
    assert answer_f1("keeper Ada Pell", ["Ada Pell", "nobody"]) == pytest.approx(0.8)
    assert answer_f1("nothing", ["Ada Pell"]) == 0.0
    assert answer_f1("Ada Ada", ["Ada Pell"]) == pytest.approx(0.5)
    assert answer_f1("anything", []) == 0.0


def test_chinese_answers_are_compared_by_character() -> None:
    assert exact_match("英语。", ["英语"]) == 1.0
    assert answer_f1("是英语", ["英语"]) == pytest.approx(0.8)
    assert holds_answer("它的官方语言是英语。", ["英语"])


def test_holds_answer_wants_whole_words() -> None:
    assert holds_answer("She sold the painting in 1,843.", ["1843"])
    assert not holds_answer("A painter.", ["paint"])
    assert not holds_answer("Anything", ["", "the"])


def test_yes_and_no_cannot_be_found() -> None:
    assert not is_findable(["Yes", "yes."])
    assert not is_findable(["是"])
    assert not is_findable([])
    assert is_findable(["yes", "Ada Pell"])


def test_quoted_sentences_are_those_of_an_extractive_answer() -> None:
    answer = "Sentences quoted:\n\n- Ada keeps it [sic]. [1]\n- Nell wrote. [2]\n\n### References\n\n- [1] p1\n- [2] p2"
    assert quoted_sentences(answer) == ["Ada keeps it [sic].", "Nell wrote."]


def test_check_citations_counts_what_exists_and_what_is_supported() -> None:
    sources = {"1": "Ada Pell keeps the lamp.", "2": "The mill makes paper."}
    answer = "Ada keeps lamps [1]. The moon is green [2, 7]. Nobody knows.\n\n### References\n\n- [1] a\n- [9] b"
    found = check_citations(answer, sources)
    assert (found.sentences, found.cited_sentences) == (3, 2)
    assert (found.citations, found.existing, found.supported) == (3, 2, 1)


def test_check_citations_gives_a_citation_after_the_full_stop_to_the_sentence_before() -> None:
    found = check_citations("Ada keeps lamps. [1] The mill makes paper. [2]", {"1": "lamp", "2": "paper"})
    assert (found.sentences, found.cited_sentences, found.supported) == (2, 2, 2)


def test_check_citations_in_chinese() -> None:
    found = check_citations("望江钟由沈万年铸造[1]。月亮是绿色的[1]。", {"1": "望江钟由沈万年铸造，挂在渡口。"})
    assert (found.citations, found.supported) == (2, 1)


def test_check_citations_of_nothing() -> None:
    assert check_citations("", {}).sentences == 0
