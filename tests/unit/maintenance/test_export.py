"""Every export is whole and readable by others, whatever names it must write, and leaves nothing half done."""

from __future__ import annotations

import csv
import errno
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from heliograph import AsyncHeliograph
from heliograph.errors import ConflictError, InvalidRequestError, StoreUnavailable
from heliograph.ingest.given import GivenChunk, GivenEntity, GivenRelation
from heliograph.maintenance.archive import Contents
from heliograph.maintenance.export_formats import FileNames
from heliograph.maintenance.transfer import ExportFormat
from heliograph.stores.base import CurationStore
from heliograph.stores.sqlite.search import SqliteVectorStore
from heliograph.testing.fakes import FakeEmbeddingModel

HOSTILE = [
    "../x",
    "/etc/passwd",
    "CON",
    "con.txt",
    "COM1",
    "a" * 300,
    "\N{PILE OF POO}" * 120,
    "望" * 200,
    "\ud800 alone",
    "bell \x07 and nul \x00",
    "]]> <![CDATA[",
    "<b>&amp;</b>",
    "=HYPERLINK(1)",
    "+1+1",
    "-2",
    "@SUM(A1)",
    "a|b]] [[c",
    "# head ^ing",
    "e\u0301 composed",
    "\u00e9 composed",
    ".",
    "..",
    "Straße",
    "STRASSE",
    "trailing dot.",
    "right\u202eleft",
]
GRAPHML = "{http://graphml.graphdrawing.org/xmlns}"


@pytest.fixture
async def hostile(tmp_path: Path) -> AsyncIterator[AsyncHeliograph]:
    """A workspace whose entities, documents and descriptions are named to break files."""
    async with AsyncHeliograph(tmp_path / "data", embedding=FakeEmbeddingModel()) as kb:
        entities = [GivenEntity(name, name, f"=says {name}\x1b of itself") for name in HOSTILE]
        relations = [
            GivenRelation("Straße", name, f"{name} ]]>", name) for name in HOSTILE if name[:3].lower() != "str"
        ]
        for number, name in enumerate(HOSTILE):
            chunks = [GivenChunk(f"Of {name}: {number}.")]
            metadata = {name.replace("\ud800", ""): "=1", "source": "another"}
            await kb.insert_graph(chunks, entities, relations, source=name, title=name, metadata=metadata)
        yield kb


async def graph(kb: AsyncHeliograph) -> tuple[list[Any], list[Any]]:
    contents = Contents(kb.store)
    return [item async for item in contents.entities()], [item async for item in contents.relations()]


async def test_graphml_holds_the_graph_for_a_strict_parser(hostile: AsyncHeliograph, tmp_path: Path) -> None:
    entities, relations = await graph(hostile)
    assert await hostile.export(tmp_path / "kb.graphml", "graphml") == len(entities) + len(relations)
    root = ET.parse(tmp_path / "kb.graphml").getroot()
    names = {key.get("id"): key.get("attr.name") for key in root.iter(f"{GRAPHML}key")}

    def values(element: ET.Element) -> dict[str | None, str]:
        return {names[data.get("key")]: data.text or "" for data in element}

    nodes = {node.get("id"): values(node) for node in root.iter(f"{GRAPHML}node")}
    assert {name: item["description"] for name, item in nodes.items()} == {e.name: e.description for e in entities}
    edges = [(edge.get("source"), edge.get("target"), values(edge)) for edge in root.iter(f"{GRAPHML}edge")]
    assert {end for source, target, _ in edges for end in (source, target)} <= nodes.keys()
    assert sum(float(item["weight"]) for *_, item in edges) == sum(item.weight for item in relations)
    assert len(edges) == len(relations)


async def test_graphml_edges_lead_to_nodes_though_a_chunk_spells_an_end_otherwise(
    kb: AsyncHeliograph, tmp_path: Path
) -> None:
    for number in range(3):
        await kb.insert_graph([GivenChunk(f"{number}")], [GivenEntity("Mosquitto Broker")], source=f"m{number}")
    relation = GivenRelation("MOSQUITTO BROKER", "TLS")
    await kb.insert_graph([GivenChunk("loud")], (), [relation], source="loud")
    await kb.export(tmp_path / "kb.graphml", ExportFormat.GRAPHML)
    root = ET.parse(tmp_path / "kb.graphml").getroot()
    nodes = {node.get("id") for node in root.iter(f"{GRAPHML}node")}
    assert "Mosquitto Broker" in nodes
    assert all({edge.get("source"), edge.get("target")} <= nodes for edge in root.iter(f"{GRAPHML}edge"))


async def test_csv_cells_are_whole_and_run_no_formula(hostile: AsyncHeliograph, tmp_path: Path) -> None:
    entities, relations = await graph(hostile)
    await hostile.export(tmp_path / "tables", "csv")
    tables: dict[str, list[dict[str, str]]] = {}
    for name in ("documents", "chunks", "entities", "relations"):
        with (tmp_path / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            tables[name] = list(csv.DictReader(file))
    assert {row["id"]: row["name"].removeprefix("'") for row in tables["entities"]} == {e.id: e.name for e in entities}
    assert len(tables["relations"]) == len(relations)
    ids = {row["id"] for row in tables["entities"]}
    assert all({row["source_id"], row["target_id"]} <= ids for row in tables["relations"])
    assert len(tables["documents"]) == len(tables["chunks"]) == len(HOSTILE)
    cells = [cell for rows in tables.values() for row in rows for cell in row.values()]
    assert not [cell for cell in cells if re.match(r"[=+\-@\t\r\n]", cell)]


async def test_csv_of_chunks_has_headings_and_columns(kb: AsyncHeliograph, tmp_path: Path) -> None:
    rows = "".join(f"| P-{number} | {number} EUR |\n" for number in range(400))
    await kb.insert(f"# Shop\n\n## Parts\n\n| Part | Price |\n|---|---|\n{rows}", sources=["parts.md"])
    await kb.export(tmp_path / "tables", "csv")
    with (tmp_path / "tables" / "chunks.csv").open(encoding="utf-8", newline="") as file:
        found = {(row["headings"], row["columns"]) for row in csv.DictReader(file) if row["source"] == "parts.md"}
    assert found == {("Shop", ""), ("Shop > Parts", "Part; Price")}


async def test_vault_links_lead_to_notes_inside_it(hostile: AsyncHeliograph, tmp_path: Path) -> None:
    entities, _ = await graph(hostile)
    count = await hostile.export(tmp_path / "vault", "obsidian")
    notes = list((tmp_path / "vault").rglob("*.md"))
    assert len(notes) == count == len(entities) + len(HOSTILE)
    names = [note.stem for note in notes]
    assert len({name.casefold() for name in names}) == len(names)
    assert all(len(note.name.encode()) <= 255 for note in notes)
    text = "\n".join(note.read_text("utf-8") for note in (tmp_path / "vault" / "entities").iterdir())
    links = re.findall(r"^- \[\[([^\]|]+)(?:\|[^\]]*)?\]\]", text, re.MULTILINE)
    assert len(links) > len(HOSTILE)
    assert set(links) <= set(names)


async def test_vault_properties_are_readable_and_say_the_true_source(hostile: AsyncHeliograph, tmp_path: Path) -> None:
    await hostile.export(tmp_path / "vault", "obsidian")
    sources: set[str] = set()
    for note in (tmp_path / "vault" / "documents").iterdir():
        front = note.read_text("utf-8").split("---\n")[1]
        fields = dict(json.loads(f"[{line.replace(': ', ',', 1)}]") for line in front.splitlines() if '": ' in line)
        sources.add(fields["source"])
    assert sources == {document.source for document in (await hostile.documents()).documents}


async def test_markdown_holds_texts_and_graph(hostile: AsyncHeliograph, tmp_path: Path) -> None:
    entities, relations = await graph(hostile)
    assert await hostile.export(tmp_path / "pages", "markdown") == len(entities) + len(relations) + len(HOSTILE)
    texts = {page.read_text("utf-8") for page in (tmp_path / "pages" / "documents").iterdir()}
    stored = [await hostile.store.records.get_document_text(d.id) for d in (await hostile.documents()).documents]
    assert texts == set(stored)
    page = (tmp_path / "pages" / "entities.md").read_text("utf-8")
    assert all(f"\n## {entity.name}\n" in page for entity in entities)


@pytest.mark.parametrize("form", ExportFormat)
async def test_export_writes_nothing_beside_its_path(
    hostile: AsyncHeliograph, tmp_path: Path, form: ExportFormat
) -> None:
    await hostile.export(tmp_path / "new" / "out", form)
    assert {path.name for path in tmp_path.iterdir()} == {"data", "new"}
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out"]


@pytest.mark.parametrize("form", ExportFormat)
async def test_export_overwrites_nothing(kb: AsyncHeliograph, tmp_path: Path, form: ExportFormat) -> None:
    (tmp_path / "out").write_text("precious")
    with pytest.raises(ConflictError, match=r"'.*out'"):
        await kb.export(tmp_path / "out", form)
    assert (tmp_path / "out").read_text() == "precious"
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConflictError, match="link"):
        await kb.export(tmp_path / "link", form)


@pytest.mark.parametrize("form", ExportFormat)
async def test_nothing_is_left_when_the_disk_is_full(
    kb: AsyncHeliograph, tmp_path: Path, form: ExportFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path.name for path in tmp_path.iterdir()}

    async def fail(self: object, *_: object) -> list[str]:
        raise OSError(errno.ENOSPC, "No space left on device")

    async def fail_to_list(self: CurationStore, size: int) -> AsyncIterator[Any]:
        raise OSError(errno.ENOSPC, "No space left on device")
        yield

    monkeypatch.setattr(Contents, "sources", fail)
    monkeypatch.setattr(CurationStore, "pages", fail_to_list)
    monkeypatch.setattr(SqliteVectorStore, "get_vectors", fail)
    with pytest.raises(StoreUnavailable, match="No space left"):
        await kb.export(tmp_path / "out", form)
    assert {path.name for path in tmp_path.iterdir()} == before


async def test_export_into_a_file_as_folder_is_a_typed_error(kb: AsyncHeliograph, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="cannot be written"):
        await kb.export(tmp_path / "file" / "kb.jsonl")


async def test_unknown_format_is_refused_with_those_there_are(kb: AsyncHeliograph, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"'xlsx'.*jsonl, csv"):
        await kb.export(tmp_path / "kb.xlsx", "xlsx")


async def test_empty_workspace_is_exported(tmp_path: Path) -> None:
    async with AsyncHeliograph(tmp_path / "data", embedding=FakeEmbeddingModel()) as kb:
        assert [await kb.export(tmp_path / form.value, form) for form in ExportFormat] == [0] * len(ExportFormat)


async def test_twin_has_its_text_in_a_vault(kb: AsyncHeliograph, tmp_path: Path) -> None:
    await kb.insert(
        ["# Cities\n\nShanghai is a city in China. The Eclipse Foundation sits in Brussels."], sources=["z"]
    )
    await kb.export(tmp_path / "vault", "obsidian")
    notes = [path.read_text("utf-8") for path in (tmp_path / "vault" / "documents").iterdir()]
    assert sum("Shanghai is a city" in note for note in notes) == 2


@pytest.mark.parametrize("name", HOSTILE)
def test_file_name_is_safe(name: str) -> None:
    made = FileNames().name("ent-1", name)
    assert made
    assert made == made.strip(" .")
    assert not re.search(r'[\x00-\x1f<>:"/\\|?*\[\]\ud800-\udfff]', made)
    assert made.casefold().split(".")[0] not in {"con", "com1"}
    assert len(made.encode()) <= 200


def test_file_names_differ_and_stay() -> None:
    names = FileNames()
    made = [names.name(f"ent-{number}", "Read Me") for number in range(1_000)]
    assert len(set(made)) == 1_000
    assert names.name("ent-7", "another title") == made[7]
