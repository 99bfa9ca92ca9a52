"""Fusion is never below its best channel, whatever a corpus is like: encyclopedia, one site, textbook, chats.

Four small corpora, read by the offline embedding. Per corpus the share of the wanted passages among the first places is
compared with what vectors find alone, words alone, and both joined by reciprocal rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pytest

from heliograph import AsyncHeliograph, NewDocument, QueryParam
from heliograph.settings import Settings

_PLACES = 3


@dataclass(frozen=True)
class Corpus:
    """Documents by source, and questions with texts of which each must stand in one of the first chunks."""

    documents: dict[str, str]
    questions: dict[str, tuple[str, ...]]


def _encyclopedia() -> Corpus:
    """Of every film, its director and the director's town there is a passage of its own; questions need two."""
    films = "Amber Harbour,Silent Orchard,Paper Lanterns,Winter Ledger,Glass Meadow,Copper Tide,Hollow Crown,Salt Road"
    people = "Mara Velden,Tomas Ruhr,Ilse Kvam,Bruno Sarti,Nadia Orlov,Pavel Hruska,Greta Lind,Omar Dassin"
    towns = "Stavern,Bremgarten,Ostrava,Lucerne,Tromso,Bergamo,Kaunas,Sligo"
    rows = list(zip(films.split(","), people.split(","), towns.split(","), strict=True))
    documents: dict[str, str] = {}
    for year, (film, person, town) in enumerate(rows, start=1951):
        documents[film] = f"{film}\n{film} is a drama film of {year}, written and directed by {person}."
        documents[person] = f"{person}\n{person} was a film maker, born in {town} as the child of a school teacher."
        documents[town] = f"{town}\n{town} is a town known for its market, its old bridge and a museum of clocks."
    questions = {
        f"Where was the director of {film} born?": (f"{film} is a drama", f"{person} was a film maker")
        for film, person, _ in rows
    }
    return Corpus(documents, questions)


_SECTIONS = {
    "Power": "It runs for nine hours on its battery when the mains fail, and warns twice before it goes out.",
    "Reach": "Walls of concrete shorten the distance at which devices are heard to about thirty metres.",
    "Trust": "Certificates are renewed every ninety days without anybody having to do anything.",
    "Cleaning": "Wipe the case with a dry cloth only; liquids creep under the lid and spoil the board.",
    "Returns": "Send it back within thirty days and you are repaid in full, postage included.",
    "Noise": "The fan turns slowly at night, so that it may stand in a bedroom.",
    "Children": "Small parts may be swallowed; keep the screws out of the reach of toddlers.",
    "Updates": "New firmware is fetched on Sunday mornings and started after a restart of its own accord.",
    "Heat": "Above forty degrees it slows down, and above sixty it switches itself off.",
    "Colour": "A blue light means that it is searching, a green one that it is connected.",
    "Export": "Readings of past months are handed out as a table that any spreadsheet opens.",
    "Theft": "A stolen device can be locked from afar and is of no use to whoever took it.",
}


def _site() -> Corpus:
    """Three pages of one site: every section says the same names and words around the one thing that is asked."""
    menu = "Home | Lantern gateway | Support of the Lantern gateway | Contact the Harbour team"
    pages: dict[str, str] = {}
    for page in range(3):
        sections = list(_SECTIONS.items())[page * 4 : page * 4 + 4]
        pages[f"page-{page}"] = "\n\n".join(
            f"# {title} of the Lantern gateway\n\n{menu}\n\nThe Lantern gateway is made by the Harbour team. {text} "
            f"Ask the Harbour team about the Lantern gateway."
            for title, text in sections
        )
    questions = {
        "How long does the Lantern gateway keep going in an outage of electricity?": ("nine hours",),
        "May I wash the Lantern gateway with water?": ("dry cloth",),
        "Is the Lantern gateway dangerous for a baby?": ("swallowed",),
        "What happens to the Lantern gateway on a very hot day?": ("forty degrees",),
        "Do I get my money back for the Lantern gateway?": ("repaid in full",),
        "Can a burglar go on using the Lantern gateway?": ("locked from afar",),
        "Will the Lantern gateway keep me awake?": ("fan turns slowly",),
    }
    return Corpus(pages, questions)


def _textbook() -> Corpus:
    """Rules that differ in a word or a number: what they mean is nearly the same, so the words decide."""
    terms = {
        "显性性状": "具有相对性状的纯合亲本杂交,子一代中显现出来的性状",
        "隐性性状": "具有相对性状的纯合亲本杂交,子一代中没有显现出来的性状",
        "相对性状": "同种生物的同一种性状的不同表现类型",
        "性状分离": "杂种后代中同时出现显性性状和隐性性状的现象",
        "等位基因": "位于同源染色体的相同位置上控制相对性状的基因",
        "基因型": "与表现型有关的基因组成",
        "表现型": "生物个体表现出来的性状",
        "测交": "让子一代与隐性纯合子杂交",
        "自交": "同一植株上的雌雄配子相结合",
        "正交与反交": "两个亲本互换父本与母本的一对杂交",
        "伴性遗传": "位于性染色体上的基因控制的性状与性别相关联的遗传",
        "细胞质遗传": "由细胞质中的遗传物质控制的遗传",
        "联会": "同源染色体两两配对的现象",
        "四分体": "联会后的每对同源染色体含有的四条染色单体",
    }
    documents = {term: f"{term}是指{text}。学习时要与其他性状和基因的概念区分。" for term, text in terms.items()}
    return Corpus(documents, {f"什么叫做{term}?": (f"{term}是指",) for term in terms})


def _chats() -> Corpus:
    """Short messages of a few people about the same days; names and odd words tell them apart."""
    lines = [
        "Wolfgang: the router on the third floor died again this morning",
        "Li Hua: I bought two tickets for the concert on Friday",
        "Adam: dinner at the noodle place at seven, as always?",
        "Jennifer: my gym class moved to Thursday evening",
        "Wolfgang: the landlord wants the rent on the first from now on",
        "Li Hua: the landlord sent a plumber about the leaking tap",
        "Adam: my sister arrives at the airport on Sunday at noon",
        "Jennifer: I cannot eat peanuts, please tell the cook",
        "Wolfgang: the projector needs an adapter for the new laptop",
        "Li Hua: the library closes at eight during the holidays",
        "Adam: I lost my badge, the guard gave me one for the day",
        "Jennifer: the dentist found nothing, I am so glad",
        "Wolfgang: I am on leave from Monday to Wednesday",
        "Li Hua: the cat slept on the radiator all day long",
        "Adam: the car failed its inspection because of the brakes",
        "Jennifer: somebody left a red umbrella in the hall",
    ]
    documents = {f"{day}": f"2026-01-{day:02} {line}" for day, line in enumerate(lines, start=1)}
    questions = {
        "When did the router die?": ("the router",),
        "When does Adam's sister arrive?": ("my sister",),
        "What can Jennifer not eat?": ("peanuts",),
        "Who sent the plumber?": ("a plumber",),
        "What did Wolfgang say about the rent?": ("the rent",),
        "Why did Adam's car fail?": ("brakes",),
        "When is Wolfgang on leave?": ("on leave",),
        "What colour is the forgotten umbrella?": ("red umbrella",),
    }
    return Corpus(documents, questions)


@pytest.mark.parametrize(
    "corpus", [_encyclopedia(), _site(), _textbook(), _chats()], ids=["encyclopedia", "site", "textbook", "chats"]
)
async def test_fusion_is_not_below_its_best_channel(tmp_path: Path, corpus: Corpus) -> None:
    settings = Settings.load(ingest={"chunk_tokens": 100, "overlap_tokens": 0}, store={"data_dir": tmp_path})
    asked = {
        "vectors": QueryParam(mode="naive"),
        "joined": QueryParam(mode="naive", channels=["keyword"]),
        "fusion": QueryParam(mode="fusion"),
        "auto": QueryParam(mode="auto"),
    }
    found = dict.fromkeys((*asked, "words"), 0.0)
    async with AsyncHeliograph(settings=settings) as kb:
        await kb.insert([NewDocument(text, source=source) for source, text in corpus.documents.items()])
        for name, param in asked.items():
            chunks = [(await kb.query_data(question, param))["data"]["chunks"] for question in corpus.questions]
            texts = [[chunk["content"] for chunk in first[:_PLACES]] for first in chunks]
            found[name] = _recall(corpus, texts)
            if name == "fusion":
                worded = [sorted(first, key=lambda chunk: -chunk["scores"].get("keyword", 0.0)) for first in chunks]
                found["words"] = _recall(corpus, [[chunk["content"] for chunk in first[:_PLACES]] for first in worded])
    best = max(found["vectors"], found["words"], found["joined"])
    assert found["fusion"] >= best, found
    assert found["auto"] >= best, found


def _recall(corpus: Corpus, texts: list[list[str]]) -> float:
    wanted = corpus.questions.values()
    return fmean(
        fmean(any(part in text for text in first) for part in parts) for parts, first in zip(wanted, texts, strict=True)
    )
