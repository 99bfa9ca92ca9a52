"""Extraction without a chat model."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.errors import SettingsError
from heliograph.extraction.local import LocalExtractor
from heliograph.ids import clean_name, entity_key, is_subject_rank, mention_rank
from heliograph.models import Chunk, Document, EntityMention, Extraction, RelationMention
from heliograph.text.tokens import count_tokens

STORY = (
    "Anna Weber is an engineer who was born in Hamburg. She joined the Nordlicht Institute in 1998. "
    "At the Nordlicht Institute, Weber met Tom Becker. Becker had built the ESP32-S3 gateway in Kiel."
)
HANDBOOK = (
    "Message Queuing Telemetry Transport (MQTT) is a protocol for small devices. "
    "The ESP32-S3 speaks MQTT over TLS 1.3 to the Mosquitto broker."
)
CHINESE = "张三在北京大学研究ESP32芯片。《网关手册》由李四编写，于上海出版。李四毕业于北京大学。"


def chunks_of(texts: Sequence[str], headings: tuple[str, ...] = ()) -> list[Chunk]:
    return [
        Chunk(f"chunk-{i}", "doc-1", i, text, count_tokens(text), 0, len(text), headings)
        for i, text in enumerate(texts)
    ]


def extract(
    texts: Sequence[str], title: str = "", headings: tuple[str, ...] = (), extractor: LocalExtractor | None = None
) -> list[Extraction]:
    document = Document("doc-1", "notes.md", title=title)
    return asyncio.run((extractor or LocalExtractor()).extract(document, chunks_of(texts, headings)))


def entities(extraction: Extraction) -> dict[str, EntityMention]:
    return {mention.name: mention for mention in extraction.entities}


def relation(extraction: Extraction, one: str, other: str) -> RelationMention:
    return next(found for found in extraction.relations if {found.source, found.target} == {one, other})


def test_entities_have_types_and_say_what_the_chunk_says() -> None:
    found = entities(extract([STORY])[0])
    assert found["Anna Weber"].type == "person"
    assert found["Anna Weber"].description == "Anna Weber is an engineer who was born in Hamburg."
    assert found["Nordlicht Institute"].type == "organization"
    assert found["ESP32-S3"].type == "artifact"
    assert found["Hamburg"].type == "location"


def test_short_name_stands_for_the_full_name_seen_before() -> None:
    found = entities(extract([STORY])[0])
    assert "Weber" not in found
    assert "Becker" not in found
    later = entities(extract([STORY, "Later Weber went to Oslo."])[1])
    assert "Anna Weber" in later


def test_relation_is_the_sentence_in_which_two_meet() -> None:
    met = relation(extract([STORY])[0], "Anna Weber", "Tom Becker")
    assert met.description == "At the Nordlicht Institute, Weber met Tom Becker."
    assert met.weight == 1.0
    assert "met" in met.keywords


def test_abbreviation_and_long_form_are_related_and_share_the_definition() -> None:
    extraction = extract([HANDBOOK])[0]
    found = entities(extraction)
    long, short = found["Message Queuing Telemetry Transport"], found["MQTT"]
    assert long.description == short.description
    assert "is a protocol" in short.description
    assert relation(extraction, "MQTT", "Message Queuing Telemetry Transport").keywords == ("abbreviation",)


def test_chunk_is_about_its_title_heading_and_opening() -> None:
    first = entities(extract(["The gateway connects sensors to Mosquitto."], title="Nordlicht Gateway")[0])
    assert first["Nordlicht Gateway"].rank == mention_rank("doc-1", 0, is_subject=True)
    assert first["Mosquitto"].rank == mention_rank("doc-1", 0, is_subject=False)
    second = entities(extract(["It uses Mosquitto."], title="Manual.md", headings=("Guide", "MQTT broker"))[0])
    assert second["MQTT broker"].rank == mention_rank("doc-1", 0, is_subject=True)
    opening = entities(extract(["Mosquitto is a broker. It runs in Kiel."])[0])
    assert opening["Mosquitto"].rank == mention_rank("doc-1", 0, is_subject=True)
    assert opening["Kiel"].rank == mention_rank("doc-1", 0, is_subject=False)


PARAGRAPHS = """Ada Kern
Ada Kern (born 1920) was a chemist. She worked in Kiel with Otto Blum.

Mosquitto
Mosquitto is a broker which runs on small devices. It speaks MQTT.

In Oslo a second office opened. It is led by Eva Holm.

Otto Blum joined later."""


def test_each_paragraph_is_about_what_its_title_or_first_sentence_names() -> None:
    found = entities(extract([PARAGRAPHS])[0])
    subjects = {name for name, mention in found.items() if is_subject_rank(mention.rank)}
    assert {"Ada Kern", "Mosquitto"} <= subjects
    assert subjects.isdisjoint({"Kiel", "Oslo", "Eva Holm", "Otto Blum", "MQTT"})


def test_section_inside_a_chunk_is_about_its_heading() -> None:
    text = "## Nordlicht Gateway\n\nIt is in Kiel.\n\n## Tidal Broker\n\nIt is in Oslo."
    found = entities(extract([text], headings=("Nordlicht Gateway",))[0])
    subjects = {name for name, mention in found.items() if is_subject_rank(mention.rank)}
    assert subjects == {"Nordlicht Gateway", "Tidal Broker"}


def test_pronoun_means_what_its_own_paragraph_is_about() -> None:
    extraction = extract([PARAGRAPHS])[0]
    assert relation(extraction, "Ada Kern", "Kiel").description.startswith("She worked")
    assert relation(extraction, "Mosquitto", "MQTT").description == "It speaks MQTT."
    assert not [item for item in extraction.relations if {item.source, item.target} == {"Ada Kern", "MQTT"}]


def test_title_of_a_chinese_paragraph_is_what_it_is_about() -> None:
    found = entities(extract(["柳江\n柳江的主要支流是寨蒿河。\n\n寨蒿河\n寨蒿河发源于贵州省黎平县。"])[0])
    subjects = {name for name, mention in found.items() if is_subject_rank(mention.rank)}
    assert {"柳江", "寨蒿河"} <= subjects
    assert "贵州省" not in subjects


def test_chinese_paragraph_is_about_what_its_first_sentence_defines() -> None:
    rail, light = "青藏铁路是中国的一条铁路。它连接西宁和拉萨。", "光合作用是植物把光能变成化学能的过程。它需要叶绿素。"
    extraction = extract([f"{rail}\n\n{light}"])[0]
    found = entities(extraction)
    assert {name for name, mention in found.items() if is_subject_rank(mention.rank)} == {"青藏铁路", "光合作用"}
    assert relation(extraction, "光合作用", "叶绿素").description == "它需要叶绿素。"
    assert not [item for item in extraction.relations if {item.source, item.target} == {"青藏铁路", "叶绿素"}]


def test_chinese_verb_between_latin_names_is_no_entity_but_says_how_they_are_related() -> None:
    extraction = extract(["OpenAI 发布 GPT-4。"])[0]
    assert set(entities(extraction)) == {"OpenAI", "GPT-4"}
    assert relation(extraction, "OpenAI", "GPT-4").keywords == ("发布",)


def test_sentence_with_one_entity_relates_it_to_the_subject() -> None:
    extraction = extract(["The box is small. Data goes to Mosquitto."], title="Nordlicht Gateway")[0]
    about = relation(extraction, "Nordlicht Gateway", "Mosquitto")
    assert about.weight == 0.5
    assert about.description == "Data goes to Mosquitto."


@pytest.mark.parametrize(
    "title", ["", "notes/index.md", "report.pdf", "Overview", "How to install it", "2024-05-01", "42"]
)
def test_title_that_names_nothing_is_no_entity(title: str) -> None:
    assert list(entities(extract(["It works in Kiel."], title=title)[0])) == ["Kiel"]


def test_chinese_is_read() -> None:
    extraction = extract([CHINESE], title="网关手册")[0]
    found = entities(extraction)
    assert found["张三"].type == "person"
    assert found["北京大学"].type == "organization"
    assert found["网关手册"].rank == mention_rank("doc-1", 0, is_subject=True)
    assert any(name.startswith("ESP32") for name in found)
    assert relation(extraction, "李四", "北京大学").keywords == ("毕业于",)


def test_recurring_phrase_is_a_concept() -> None:
    text = "An access token is short. Renew the access token daily. Never share access tokens with Kiel."
    assert entities(extract([text])[0])["access token"].type == "concept"


def test_output_is_bounded_and_settable() -> None:
    text = " ".join(f"Zorb{i}ville borders Quux{i}stan near Plim{i}town." for i in range(40))
    tokens = count_tokens(text)
    default = extract([text])[0]
    assert len(default.entities) == round(tokens * 0.06)
    assert len(default.relations) <= round(tokens * 0.024)
    small = extract([text], extractor=LocalExtractor(entities_per_1000_tokens=5, relations_per_1000_tokens=0))[0]
    assert len(small.entities) < len(default.entities)
    assert small.relations == ()


def test_negative_bound_is_refused() -> None:
    with pytest.raises(SettingsError, match="relations_per_1000_tokens"):
        LocalExtractor(relations_per_1000_tokens=-1)


def test_descriptions_are_short() -> None:
    text = "Mosquitto " + "forwards every message " * 60 + "to Kiel and Oslo."
    for mention in extract([text])[0].entities:
        assert mention.name in mention.description
        assert len(mention.description) <= 200


async def test_progress_comes_chunk_by_chunk_from_the_loop() -> None:
    threads: list[threading.Thread] = []
    chunks = chunks_of([f"Anna met Tom{i} Becker in Kiel." for i in range(150)])
    extractions = await LocalExtractor().extract(
        Document("doc-1", "s"), chunks, lambda: threads.append(threading.current_thread())
    )
    assert [extraction.chunk_id for extraction in extractions] == [chunk.id for chunk in chunks]
    assert threads == [threading.current_thread()] * 150


async def test_documents_at_once_do_not_mix() -> None:
    extractor = LocalExtractor()
    document, chunks = Document("doc-1", "s"), chunks_of([STORY, CHINESE, HANDBOOK])
    alone = await extractor.extract(document, chunks)
    assert await asyncio.gather(*(extractor.extract(document, chunks) for _ in range(6))) == [alone] * 6


def test_no_chunk_and_empty_chunks_are_read() -> None:
    assert extract([]) == []
    assert [len(found.entities) for found in extract(["", "   ", "of the and"])] == [0, 0, 0]


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.text(alphabet=st.characters(), max_size=80) | st.sampled_from([STORY, CHINESE, HANDBOOK]), max_size=3),
    st.text(max_size=20) | st.sampled_from(["Anna Weber", "MQTT", "网关手册"]),
)
def test_every_relation_joins_two_entities_of_its_chunk(texts: list[str], title: str) -> None:
    for extraction in extract(texts, title=title, headings=(title,)):
        keys = [entity_key(mention.name) for mention in extraction.entities]
        assert len(keys) == len(set(keys))
        assert all(mention.name and mention.name == clean_name(mention.name) for mention in extraction.entities)
        pairs = [frozenset((entity_key(r.source), entity_key(r.target))) for r in extraction.relations]
        assert len(pairs) == len(set(pairs))
        assert all(len(pair) == 2 and pair <= set(keys) for pair in pairs)
        assert extraction.error == ""


@pytest.mark.parametrize(
    ("text", "source", "target", "said"),
    [
        ("Demon Dice was written by Lester Smith.", "Demon Dice", "Lester Smith", "written by"),
        ("Oslo is the largest city in Norway.", "Oslo", "Norway", "largest city in"),
        ("Zorblatt, who had studied law, was born on a farm near Mediaș.", "Zorblatt", "Mediaș", "born on a farm near"),
        ("Mosquitto stores the sessions in Redis.", "Mosquitto", "Redis", "stores the sessions in"),
        ("Mosquitto does not support SOCKS5.", "Mosquitto", "SOCKS5", "not support"),
        ("柳江的主要支流是寨蒿河。", "柳江", "寨蒿河", "主要支流"),
        ("寨蒿河发源于贵州省。", "寨蒿河", "贵州省", "发源于"),
    ],
)
def test_relation_says_the_predicate_from_its_subject_to_its_object(
    text: str, source: str, target: str, said: str
) -> None:
    found = relation(extract([text])[0], source, target)
    assert (found.source, found.target, found.keywords) == (source, target, (said,))


@pytest.mark.parametrize("label", ["See also", "Saved", "Factor"])
def test_fields_of_a_listing_are_no_speakers(label: str) -> None:
    text = "\n\n".join(
        f"{label}: what is written here ends as a sentence does, number {number}." for number in range(4)
    )
    assert all(entity.type != "person" for entity in extract([text])[0].entities)


def test_descriptions_are_sentences_and_no_headings() -> None:
    text = "# Zorblatt Server\n\n- Zorblatt Server\n\nThe Zorblatt Server stores what Ann Weber writes."
    (mention,) = [m for m in extract([text])[0].entities if m.name == "Zorblatt Server"]
    assert mention.description == "The Zorblatt Server stores what Ann Weber writes."


@pytest.mark.parametrize("between", ["：", "、"])
def test_a_mark_between_two_names_says_nothing_of_them(between: str) -> None:
    found = relation(extract([f"Both Mosquitto{between}Redis must be signed."])[0], "Mosquitto", "Redis")
    assert found.keywords == ()
