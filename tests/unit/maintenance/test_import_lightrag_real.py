"""Real working directories of LightRAG 1.1 to 1.4.9 and nano-graphrag: an import holds what their graphs hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from heliograph import AsyncHeliograph
from heliograph.ids import clean_name, entity_key, names_to_relation_id
from heliograph.maintenance.archive import Contents
from heliograph.testing.fakes import FakeEmbeddingModel

FOLDER = Path(__file__).parents[4] / "shared" / "lightrag_dirs"
NAMES = ["anesthesia_zh", "books_vi_en", "christmas_carol_nano", "nist_partial", "twocomm_apache"]
NAMESPACE = "{http://graphml.graphdrawing.org/xmlns}"

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the real directories in ../shared/lightrag_dirs")

Values = dict[str, str]


def read(name: str) -> Iterator[tuple[ET.Element, Values]]:
    root = ET.parse(FOLDER / name / "graph_chunk_entity_relation.graphml").getroot()
    keys = {key.get("id"): key.get("attr.name") or "" for key in root.iter(f"{NAMESPACE}key")}
    for element in (*root.iter(f"{NAMESPACE}node"), *root.iter(f"{NAMESPACE}edge")):
        yield element, {keys[data.get("key")]: data.text or "" for data in element}


def parts(text: str) -> set[str]:
    return {part.strip('" \n') for part in text.split("<SEP>")} - {""}


def weight_of(values: Values) -> float:
    # A weight of 0 or less is repaired to 1, and reported.
    weight = float(values["weight"])
    return weight if weight > 0 else 1.0


@pytest.mark.parametrize("name", NAMES)
async def test_real_directory_keeps_entities_relations_and_weights(name: str, tmp_path: Path) -> None:
    nodes = {element.get("id", ""): values for element, values in read(name) if element.tag.endswith("node")}
    edges = [(e.get("source", ""), e.get("target", ""), values) for e, values in read(name) if e.tag.endswith("edge")]
    proper = [edge for edge in edges if entity_key(clean_name(edge[0])) != entity_key(clean_name(edge[1]))]
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        report = await kb.import_from(FOLDER / name)
        entities = {entity_key(item.name): item async for item in Contents(kb.store).entities()}
        relations = {item.id: item async for item in Contents(kb.store).relations()}
        assert entities.keys() == {entity_key(clean_name(label)) for label in nodes}
        assert relations.keys() == {names_to_relation_id(clean_name(a), clean_name(b)) for a, b, _ in proper}
        assert (report.graph.entities, report.graph.relations) == (len(entities), len(relations))
        total = sum(weight_of(values) for _, _, values in proper)
        assert sum(item.weight for item in relations.values()) == pytest.approx(total, rel=1e-9)
        assert report.graph.weight == pytest.approx(total, rel=1e-9)
        assert sum(note.count for note in report.notes if "with itself" in note.text) == len(edges) - len(proper)
        assert (await kb.check()).is_clean


@pytest.mark.parametrize("name", NAMES)
async def test_real_directory_keeps_descriptions_types_and_chunks(name: str, tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        report = await kb.import_from(FOLDER / name)
        assert (await kb.stats()).chunks == report.chunks
        entities = {entity_key(item.name): item async for item in Contents(kb.store).entities()}
        lost: list[str] = []
        for element, values in read(name):
            if not element.tag.endswith("node"):
                continue
            entity = entities[entity_key(clean_name(element.get("id", "")))]
            said = {part.strip('" \n') for part in entity.description.split("<SEP>")}
            if not parts(values["description"]) <= said:
                lost.append(entity.name)
            if len([label for label in values["source_id"].split("<SEP>") if label]) > len(entity.chunk_ids):
                lost.append(entity.name)
        assert lost == []


async def graph_of(kb: AsyncHeliograph) -> tuple[dict[str, object], dict[str, object]]:
    contents = Contents(kb.store)
    entities = {item.id: (item.name, item.type, item.description) async for item in contents.entities()}
    relations = {item.id: (item.keywords, item.description, item.weight) async for item in contents.relations()}
    return {**entities}, {**relations}


@pytest.mark.parametrize("name", NAMES)
async def test_real_directory_goes_in_twice_and_back_and_nothing_changes(name: str, tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path / "one", embedding=FakeEmbeddingModel()) as kb:
        report = await kb.import_from(FOLDER / name)
        whole = await graph_of(kb)
        again = await kb.import_from(FOLDER / name)
        assert (again.added, again.updated) == (0, 0)
        assert await graph_of(kb) == whole
        await kb.export(tmp_path / "out", "lightrag")
    async with AsyncHeliograph(tmp_path / "two", embedding=FakeEmbeddingModel()) as kb:
        moved = await kb.import_from(tmp_path / "out")
        assert moved.chunks == report.chunks
        assert await graph_of(kb) == whole
        assert (await kb.check()).is_clean


async def test_types_and_spellings_are_restored_in_an_old_directory(tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path, embedding=FakeEmbeddingModel()) as kb:
        await kb.import_from(FOLDER / "christmas_carol_nano")
        scrooge = await kb.entity("SCROOGE")
        assert scrooge is not None
        assert (scrooge.name, scrooge.type) == ("Scrooge", "person")
