from __future__ import annotations

from pathlib import Path

from heliograph.evaluation.sets import CorpusMap, GivenExtraction, GivenExtractor, map_corpus, read_set
from heliograph.ids import is_subject_rank
from heliograph.models import Chunk, Document, Extraction

GIVEN = {
    "p1": GivenExtraction(("Ada Pell", "Gannet Head"), (("Ada Pell", "keeps the lamp of", "Gannet Head"),)),
    "p4": GivenExtraction(("Nell Tarrant", "Leith", ""), (("Nell Tarrant", "wrote about", "the ferry"),)),
}


async def read(corpus: CorpusMap, start: int, end: int) -> Extraction:
    given = corpus.documents[0]
    text = given.text[start:end]
    document = Document("doc-1", given.source or "", title=given.title)
    (found,) = await GivenExtractor(corpus, GIVEN).extract(document, [Chunk("c", "doc-1", 0, text, 9, start, end)])
    return found


async def test_passage_gives_what_was_read_in_it(harbour: Path) -> None:
    corpus = map_corpus(read_set(harbour))
    found = await read(corpus, 0, len(corpus.documents[0].text))
    assert {mention.name for mention in found.entities} == {"Ada Pell", "Gannet Head"}
    (relation,) = found.relations
    assert (relation.source, relation.target, relation.keywords) == ("Ada Pell", "Gannet Head", ("keeps the lamp of",))
    about = {mention.name for mention in found.entities if is_subject_rank(mention.rank)}
    assert "Gannet Head" in about
    said = {mention.description for mention in found.entities}
    assert said == {"Gannet Head Ada Pell keeps the lamp at Gannet Head."}


async def test_joined_passages_that_are_whole_give_all_and_others_what_the_text_names(harbour: Path) -> None:
    corpus = map_corpus(read_set(harbour), join=4)
    text = corpus.documents[0].text
    whole = await read(corpus, 0, len(text))
    assert {mention.name for mention in whole.entities} == {
        "Ada Pell", "Gannet Head", "Nell Tarrant", "Leith", "the ferry",
    }  # fmt: skip
    cut = await read(corpus, 0, text.index(" at Gannet"))
    assert {mention.name for mention in cut.entities} == {"Ada Pell", "Gannet Head"}
    late = await read(corpus, text.index("ferry between"), len(text))
    assert {mention.name for mention in late.entities} == {"Leith"}
    assert late.relations == ()


async def test_passage_of_which_nothing_is_given_says_nothing(harbour: Path) -> None:
    corpus = map_corpus(read_set(harbour))
    other = GivenExtractor(corpus, {})
    source = corpus.documents[1].source or ""
    (found,) = await other.extract(Document("doc-2", source), [Chunk("c", "doc-2", 0, "The mill", 2, 0, 8)])
    assert (found.entities, found.relations, found.error) == ((), (), "")
    assert other.name != GivenExtractor(corpus, GIVEN).name
