"""Working directories of LightRAG and nano-graphrag, whole and broken, made here."""

from __future__ import annotations

import json
import shutil
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph import AsyncHeliograph
from heliograph.embedding.base import EmbeddingKind, Embeddings
from heliograph.errors import InvalidRequestError
from heliograph.ids import document_id, end_ids, mention_rank
from heliograph.ingest.chunking import joined, place_chunks
from heliograph.ingest.given import GivenChunk
from heliograph.ingest.merging import (
    EvidenceFold,
    apply_entity_delta,
    apply_relation_delta,
    empty_entity_evidence,
    empty_relation_evidence,
)
from heliograph.ingest.models import Outcome
from heliograph.maintenance.archive import Contents, ImportReport, NoteKind
from heliograph.maintenance.lightrag_import import MentionTable, restore_spelling
from heliograph.maintenance.lightrag_layout import GraphEdge, GraphNode
from heliograph.models import DocumentStatus
from heliograph.stores.base import DocumentQuery
from heliograph.stores.changeset import Collection
from heliograph.testing.fakes import FakeEmbeddingModel

TEXT = "\ufeffScrooge keeps a counting-house.\r\nMarley was his partner. Scrooge sees Marley's ghost."
CHUNKS = (
    "Scrooge keeps a counting-house.\r\nMarley was his partner.",
    "Marley was his partner. Scrooge sees Marley's ghost.",
)
UNFINISHED = (*enumerate(CHUNKS), (2, "Fezziwig dances at the ball."))
NODE = ("entity_type", "description", "source_id", "file_path")
EDGE = ("weight", "description", "keywords", "source_id")


@dataclass
class Directory:
    """Writes a working directory."""

    path: Path
    nodes: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    edges: list[tuple[str, str, dict[str, str]]] = field(default_factory=list[tuple[str, str, dict[str, str]]])

    def store(self, name: str, rows: Any) -> None:
        (self.path / f"kv_store_{name}.json").write_text(json.dumps(rows, ensure_ascii=False), "utf-8")

    def graph(self) -> None:
        keys = "".join(
            f'<key id="{kind}-{name}" for="{kind}" attr.name="{name}" attr.type="string"/>'
            for kind, names in (("node", NODE), ("edge", EDGE))
            for name in names
        )

        def data(kind: str, values: dict[str, str]) -> str:
            return "".join(f'<data key="{kind}-{name}">{escape(value)}</data>' for name, value in values.items())

        nodes = "".join(f"<node id={quoteattr(name)}>{data('node', values)}</node>" for name, values in self.nodes)
        edges = "".join(
            f"<edge source={quoteattr(a)} target={quoteattr(b)}>{data('edge', values)}</edge>"
            for a, b, values in self.edges
        )
        (self.path / "graph_chunk_entity_relation.graphml").write_text(
            '<?xml version="1.0" encoding="utf-8"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
            f'{keys}<graph edgedefault="undirected">{nodes}{edges}</graph></graphml>',
            "utf-8",
        )


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    """Two chunks of one document; an old version's graph, with a self-loop and an unknown chunk."""
    (tmp_path / "rag").mkdir()
    made = Directory(tmp_path / "rag")
    made.store("full_docs", {"doc-1": {"content": TEXT, "file_path": "carol.txt"}})
    made.store("doc_status", {"doc-1": {"status": "processed", "created_at": "2025-03-01T15:52:46.469581"}})
    made.store(
        "text_chunks",
        {
            f"chunk-{n}": {"content": text, "chunk_order_index": n, "full_doc_id": "doc-1", "tokens": 9}
            for n, text in enumerate(CHUNKS)
        },
    )
    both = "chunk-0<SEP>chunk-1"
    made.nodes = [
        ('"SCROOGE"', {"entity_type": '"PERSON"', "description": '"A miser."<SEP>"He sees."', "source_id": both}),
        ('"MARLEY"', {"entity_type": '"PERSON"', "description": '"A partner."', "source_id": "chunk-1<SEP>chunk-9"}),
        ('"TINY TIM"', {"entity_type": '"UNKNOWN"', "description": '"Nobody said."', "source_id": "chunk-9"}),
    ]
    made.edges = [
        (
            '"SCROOGE"',
            '"MARLEY"',
            {"weight": "10.0", "keywords": '"work, fear"', "description": '"Partners."', "source_id": both},
        ),
        ('"MARLEY"', '"MARLEY"', {"weight": "3.0", "description": '"Himself."', "source_id": "chunk-1"}),
        ('"TINY TIM"', '"BOB CRATCHIT"', {"weight": "2.5", "description": '"Father."', "source_id": "chunk-9"}),
    ]
    made.graph()
    return made


@pytest.fixture
async def kb(tmp_path: Path) -> AsyncIterator[AsyncHeliograph]:
    async with AsyncHeliograph(tmp_path / "data", embedding=FakeEmbeddingModel()) as opened:
        yield opened


def noted(report: ImportReport, kind: NoteKind, part: str) -> int:
    return sum(note.count for note in report.notes if note.kind is kind and part in note.text)


async def test_old_directory_is_imported_whole(kb: AsyncHeliograph, directory: Directory) -> None:
    report = await kb.import_from(directory.path)
    assert (report.added, report.failed, report.graph.entities, report.graph.relations) == (2, 0, 4, 2)
    assert report.graph.weight == 12.5
    scrooge, relation = await kb.entity("scrooge"), await kb.relation("Marley", "Scrooge")
    assert scrooge is not None
    assert relation is not None
    assert (scrooge.name, scrooge.type, scrooge.description) == ("Scrooge", "person", "A miser.<SEP>He sees.")
    assert (relation.weight, relation.keywords, relation.description) == (10.0, ("fear", "work"), "Partners.")
    assert (await kb.check()).is_clean


async def test_chunks_stand_at_their_places_in_the_text(kb: AsyncHeliograph, directory: Directory) -> None:
    await kb.import_from(directory.path)
    document = await kb.document("doc-1")
    assert document is not None
    text = await kb.store.records.get_document_text(document.id)
    assert text == TEXT.removeprefix("\ufeff").replace("\r\n", "\n")
    chunks = await kb.chunks(document.id)
    assert [text[chunk.start : chunk.end] for chunk in chunks] == [text.replace("\r\n", "\n") for text in CHUNKS]
    assert chunks[1].start < chunks[0].end
    assert document.metadata == {"lightrag_id": "doc-1"}
    assert document.created_at.year == 2025


async def test_what_no_known_chunk_says_has_a_document_of_its_own(kb: AsyncHeliograph, directory: Directory) -> None:
    report = await kb.import_from(directory.path)
    own = await kb.document(document_id("rag"))
    assert own is not None
    (chunk,) = await kb.chunks(own.id)
    assert chunk.text == "TINY TIM: Nobody said.\nTINY TIM - BOB CRATCHIT: Father."
    tim = await kb.entity("Tiny Tim")
    assert tim is not None
    assert (tim.type, tim.chunk_ids) == ("unknown", (chunk.id,))
    assert noted(report, NoteKind.REPAIRED, "document of their own") == 2


async def test_report_says_what_was_repaired_and_left_out(kb: AsyncHeliograph, directory: Directory) -> None:
    directory.store("community_reports", {})
    (directory.path / "vdb_entities.json").write_text("{}")
    report = await kb.import_from(directory.path)
    assert noted(report, NoteKind.LEFT_OUT, "with itself") == 1
    assert noted(report, NoteKind.LEFT_OUT, "chunks that are not kept") == 3
    assert noted(report, NoteKind.LEFT_OUT, "community reports") == 1
    assert noted(report, NoteKind.LEFT_OUT, "vector files") == 1
    assert noted(report, NoteKind.REPAIRED, "in quotes") == 3
    assert noted(report, NoteKind.REPAIRED, "in capitals") == 2
    assert noted(report, NoteKind.REPAIRED, "only ends of relations") == 1


async def test_progress_of_a_large_document_tells_of_its_embedding(kb: AsyncHeliograph, directory: Directory) -> None:
    told: list[tuple[str, int]] = []
    await kb.import_from(directory.path, progress=lambda label, count: told.append((label, count)))
    assert "texts embedded" not in dict(told)
    texts = [f"Spirit {number} visits Scrooge." for number in range(600)]
    directory.store("full_docs", {"doc-2": {"content": "\n\n".join(texts), "file_path": "spirits.txt"}})
    directory.store("doc_status", {"doc-2": {"status": "processed"}})
    rows = enumerate(texts)
    directory.store(
        "text_chunks",
        {f"chunk-{n}": {"content": text, "chunk_order_index": n, "full_doc_id": "doc-2"} for n, text in rows},
    )
    await kb.import_from(directory.path, progress=lambda label, count: told.append((label, count)))
    counts = [count for label, count in told if label == "texts embedded"]
    assert len(counts) > 1
    assert counts == sorted(counts)
    assert counts[-1] >= len(texts)
    assert (await kb.check()).is_clean


async def test_importing_again_leaves_all_alone(kb: AsyncHeliograph, directory: Directory) -> None:
    await kb.import_from(directory.path)
    version = await kb.store.get_data_version()
    assert (await kb.import_from(directory.path)).unchanged == 2
    assert await kb.store.get_data_version() == version


async def test_documents_of_one_source_are_replaced_by_nothing_of_that_source(
    kb: AsyncHeliograph, directory: Directory
) -> None:
    def imported(source: str, count: int) -> None:
        rows = {f"{source}-{n}": {"content": f"Scrooge wrote letter {n}.", "file_path": source} for n in range(count)}
        directory.store("full_docs", rows)
        chunks = {
            f"chunk-{id_}": {"content": row["content"], "full_doc_id": id_, "chunk_order_index": 0}
            for id_, row in rows.items()
        }
        directory.store("text_chunks", chunks)

    async def texts() -> list[str | None]:
        found = (await kb.documents(DocumentQuery(limit=100))).documents
        return [await kb.store.records.get_document_text(item.id) for item in found]

    directory.nodes, directory.edges = [], []
    directory.graph()
    for source, count in (("custom_kg", 1), ("custom_kg", 12), ("letters.txt", 12), ("alone.txt", 1)):
        imported(source, count)
        await kb.import_from(directory.path)
    assert (await kb.import_from(directory.path)).unchanged == 1
    before = await texts()
    for source in ("custom_kg", "unknown_source", "no-file-path", "letters.txt"):
        for text in (f"{source} one.", f"{source} two.", f"{source} one."):
            await kb.insert(text, sources=[source])
            await kb.insert_graph([GivenChunk(f"A graph of {text}")], [], [], source=source)
    folder = directory.path / "inputs"
    folder.mkdir()
    (folder / "letters.txt").write_text("A file of that name.")
    for text in ("A file of that name.", "Another file of that name."):
        (folder / "letters.txt").write_text(text)
        await kb.enqueue_files({"letters.txt": folder / "letters.txt"})
        await kb.resume()
    after = await texts()
    assert sorted(filter(None, before)) == sorted(text for text in filter(None, after) if text in before)
    assert len(after) == len(before) + 4 * 2 * 2 + 1
    # One that stands alone is what its source names, whatever its id.
    await kb.insert("The letter was changed.", sources=["alone.txt"])
    assert len(await texts()) == len(after)
    assert (await kb.check()).is_clean


async def test_deleting_the_document_takes_its_part_of_the_graph(kb: AsyncHeliograph, directory: Directory) -> None:
    await kb.import_from(directory.path)
    await kb.delete("doc-1")
    assert await kb.entity("Scrooge") is None
    assert await kb.entity("Tiny Tim") is not None
    assert (await kb.check()).is_clean


async def test_text_that_is_not_kept_is_made_of_chunks(kb: AsyncHeliograph, directory: Directory) -> None:
    (directory.path / "kv_store_full_docs.json").unlink()
    report = await kb.import_from(directory.path)
    assert noted(report, NoteKind.REPAIRED, "text is made of their chunks") == 1
    text = await kb.store.records.get_document_text("doc-1")
    assert text == "\n\n".join(chunk.replace("\r\n", "\n") for chunk in CHUNKS)
    assert (await kb.check()).is_clean


async def test_chunk_cut_within_a_character_is_found(kb: AsyncHeliograph, directory: Directory) -> None:
    row = {"content": "\ufffdlet him", "chunk_order_index": 0, "full_doc_id": "doc-2"}
    directory.store("full_docs", {"doc-2": {"content": "望let him go"}})
    directory.store("text_chunks", {"chunk-0": row})
    report = await kb.import_from(directory.path)
    assert noted(report, NoteKind.REPAIRED, "within a character") == 1
    assert [chunk.text for chunk in await kb.chunks("doc-2")] == ["let him"]


async def test_document_without_chunks_waits_and_one_without_anything_is_left_out(
    kb: AsyncHeliograph, directory: Directory
) -> None:
    directory.store("full_docs", {"doc-1": {"content": TEXT}, "doc-2": {"content": "Fezziwig dances."}})
    directory.store("doc_status", {"doc-3": {"status": "failed", "error_msg": "timeout", "file_path": "c.md"}})
    report = await kb.import_from(directory.path)
    (note,) = [note for note in report.notes if "neither text nor chunks" in note.text]
    assert note.examples == ("c.md (failed timeout)",)
    waiting = await kb.document("doc-2")
    assert waiting is not None
    assert waiting.status is DocumentStatus.PENDING
    await kb.resume()
    read = await kb.document("doc-2")
    assert read is not None
    assert read.status is DocumentStatus.PROCESSED


@pytest.mark.parametrize("status", ["failed", "processing", "pending", "PARSING"])
async def test_document_that_was_not_finished_is_partial_until_retried(
    kb: AsyncHeliograph, directory: Directory, status: str
) -> None:
    row = {"status": status, "error_msg": "C[1/3]: timeout"}
    directory.store("doc_status", {"doc-1": row})
    rows = {f"chunk-{n}": {"content": text, "chunk_order_index": n, "full_doc_id": "doc-1"} for n, text in UNFINISHED}
    directory.store("text_chunks", rows)
    report = await kb.import_from(directory.path)
    (note,) = [note for note in report.notes if "run retry" in note.text]
    assert (note.kind, note.count, note.examples) == (NoteKind.REMARK, 1, ("carol.txt",))
    unfinished = await kb.document("doc-1")
    assert unfinished is not None
    assert unfinished.status is DocumentStatus.PARTIAL
    assert f"{status} C[1/3]: timeout" in unfinished.error
    assert (await kb.check()).problem_count == 0
    before = await kb.entity("Scrooge")
    assert [item.outcome for item in (await kb.resume()).results] == []
    assert [item.outcome for item in (await kb.retry()).results] == [Outcome.PROCESSED]
    finished = await kb.document("doc-1")
    assert finished is not None
    assert (finished.status, finished.error) == (DocumentStatus.PROCESSED, "")
    assert await kb.entity("Fezziwig") is not None
    # What LightRAG had read is not read again.
    assert await kb.entity("Scrooge") == before
    assert (await kb.check()).problem_count == 0
    assert (await kb.import_from(directory.path)).unchanged == 2


@pytest.mark.parametrize("states", [{}, {"doc-1": {"status": "processed"}}, {"doc-1": {"status": "preprocessed"}}])
async def test_finished_document_of_which_nothing_was_found_is_left_so(
    kb: AsyncHeliograph, directory: Directory, states: dict[str, Any]
) -> None:
    directory.store("doc_status", states)
    directory.nodes, directory.edges = [], []
    directory.graph()
    report = await kb.import_from(directory.path)
    assert noted(report, NoteKind.REMARK, "run retry") == 0
    found = await kb.document("doc-1")
    assert found is not None
    assert (found.status, found.error) == (DocumentStatus.PROCESSED, "")
    assert (await kb.retry()).results == ()


async def test_tracks_of_batches_are_kept(kb: AsyncHeliograph, directory: Directory) -> None:
    state = {"status": "processed", "created_at": "2025-03-01T15:52:46", "track_id": "upload_20250301_155246_0f3a9c1d"}
    directory.store("doc_status", {"doc-1": state})
    await kb.import_from(directory.path)
    tracks = {item.id: item.track_id for item in (await kb.documents()).documents}
    assert tracks.pop("doc-1") == state["track_id"]
    # What no known chunk says has no batch there.
    (track,) = tracks.values()
    assert track.startswith("import_")


async def test_track_that_is_no_name_of_a_batch_is_cut(kb: AsyncHeliograph, directory: Directory) -> None:
    directory.store("doc_status", {"doc-1": {"status": "processed", "track_id": "x" * 5_000}})
    await kb.import_from(directory.path)
    assert "x" * 255 in {item.track_id for item in (await kb.documents()).documents}


async def test_two_documents_of_one_file_name_are_two(kb: AsyncHeliograph, directory: Directory) -> None:
    directory.store(
        "full_docs", {id_: {"content": f"{id_} speaks.", "file_path": "a.md"} for id_ in ("doc-1", "doc-2")}
    )
    rows = {f"c{id_}": {"content": f"{id_} speaks.", "full_doc_id": id_} for id_ in ("doc-1", "doc-2")}
    directory.store("text_chunks", rows)
    await kb.import_from(directory.path)
    found = (await kb.documents()).documents
    assert [item.source for item in found].count("a.md") == 2
    assert {item.metadata.get("lightrag_id") for item in found} >= {"doc-1", "doc-2"}


async def test_chunks_kept_apart_from_the_graph_are_used(kb: AsyncHeliograph, directory: Directory) -> None:
    directory.store("entity_chunks", {'"MARLEY"': {"chunk_ids": ["chunk-0"], "count": 1}})
    await kb.import_from(directory.path)
    marley = await kb.entity("Marley")
    assert marley is not None
    assert len(marley.chunk_ids) == 2


async def test_directory_without_a_graph_gives_documents_and_says_so(kb: AsyncHeliograph, directory: Directory) -> None:
    (directory.path / "graph_chunk_entity_relation.graphml").unlink()
    report = await kb.import_from(directory.path)
    assert (report.added, report.graph.entities) == (1, 0)
    assert noted(report, NoteKind.LEFT_OUT, "none is there") == 1


async def test_graph_alone_is_imported(kb: AsyncHeliograph, directory: Directory) -> None:
    for path in directory.path.glob("kv_store_*"):
        path.unlink()
    report = await kb.import_from(directory.path)
    assert (report.added, report.graph.entities, report.graph.relations) == (1, 4, 2)
    scrooge = await kb.entity("Scrooge")
    assert scrooge is not None
    assert scrooge.description == "A miser.<SEP>He sees."


async def test_rows_of_the_wrong_kind_are_left_out(kb: AsyncHeliograph, directory: Directory) -> None:
    directory.store("text_chunks", {"chunk-0": "text", "chunk-1": {"content": None, "chunk_order_index": "x"}})
    report = await kb.import_from(directory.path)
    assert noted(report, NoteKind.LEFT_OUT, "no objects") == 1
    assert noted(report, NoteKind.LEFT_OUT, "without a text") == 1
    assert (await kb.check()).is_clean


@pytest.mark.parametrize("weight", ["0.0", "-1", "nan", "much", ""])
async def test_weight_that_is_no_positive_number_counts_as_one(
    kb: AsyncHeliograph, directory: Directory, weight: str
) -> None:
    directory.edges[0][2]["weight"] = weight
    directory.graph()
    report = await kb.import_from(directory.path)
    relation = await kb.relation("Scrooge", "Marley")
    assert relation is not None
    assert relation.weight == 1.0
    assert noted(report, NoteKind.REPAIRED, "weights") == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("kv_store_text_chunks.json", '{"chunk-0": {"con', "text_chunks.json.* not JSON"),
        ("kv_store_full_docs.json", "[1]", "no JSON object"),
        ("graph_chunk_entity_relation.graphml", "<graphml><graph><node", "graphml.* broken"),
        ("graph_chunk_entity_relation.graphml", "", "graphml.* broken"),
        ("graph_chunk_entity_relation.graphml", '<!DOCTYPE a [<!ENTITY b "c">]><graphml/>', "declares"),
    ],
)
async def test_broken_file_is_a_typed_error_and_leaves_nothing(
    kb: AsyncHeliograph, directory: Directory, name: str, content: str, message: str
) -> None:
    (directory.path / name).write_text(content)
    with pytest.raises(InvalidRequestError, match=message):
        await kb.import_from(directory.path)
    assert (await kb.documents()).total == 0


async def test_control_characters_in_the_graph_are_read_as_spaces(kb: AsyncHeliograph, directory: Directory) -> None:
    path = directory.path / "graph_chunk_entity_relation.graphml"
    path.write_bytes(path.read_bytes().replace(b"A miser.", b"A\x01miser.").replace(b"Partners.", b"Partners\0."))
    report = await kb.import_from(directory.path)
    assert noted(report, NoteKind.REPAIRED, "control characters") == 2
    scrooge = await kb.entity("Scrooge")
    assert scrooge is not None
    assert scrooge.description == "A miser.<SEP>He sees."


async def test_folder_of_workspaces_names_them_and_one_alone_is_taken(
    kb: AsyncHeliograph, directory: Directory
) -> None:
    report = await kb.import_from(directory.path.parent)
    assert (report.added, noted(report, NoteKind.REMARK, "one workspace")) == (2, 1)
    shutil.copytree(directory.path, directory.path.parent / "other")
    with pytest.raises(InvalidRequestError, match="'other', 'rag'"):
        await kb.import_from(directory.path.parent)


def _vectors(directory: Directory, name: str, rows: list[dict[str, Any]], matrix: Any) -> None:
    body = {
        "embedding_dim": matrix.shape[1],
        "data": rows,
        "matrix": b64encode(matrix.astype("<f4").tobytes()).decode(),
    }
    (directory.path / f"vdb_{name}.json").write_text(json.dumps(body), "utf-8")


class _Counting(FakeEmbeddingModel):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        self.texts += texts
        return await super().embed(texts, kind)


@pytest.mark.parametrize("is_same", [True, False])
async def test_vectors_stay_if_the_embedding_made_them(directory: Directory, tmp_path: Path, *, is_same: bool) -> None:
    embedding = _Counting()
    contents = ["SCROOGE\nA miser.", "MARLEY\nA partner."]
    made = (await embedding.embed(contents, "document")).vectors
    # One of a thing whose text is not what is embedded here shows by which vector it has that it was kept.
    given = made if is_same else made[:, ::-1]
    rows = [
        {"__id__": f"ent-{name}", "entity_name": f'"{name}"', "content": content, "source_id": "chunk-0"}
        for name, content in zip(("SCROOGE", "MARLEY"), contents, strict=True)
    ]
    _vectors(directory, "entities", rows, given)
    embedding.texts.clear()
    async with AsyncHeliograph(tmp_path / "kept", embedding=embedding) as kb:
        report = await kb.import_from(directory.path)
        entity = await kb.entity("Scrooge")
        assert entity is not None
        (vector,) = (await kb.store.vectors.get_vectors(Collection.ENTITIES, [entity.id])).values()
        assert np.allclose(vector, made[0]) is is_same
        assert noted(report, NoteKind.REMARK, "vectors are kept") == 2 * is_same
        assert noted(report, NoteKind.LEFT_OUT, "gives others") == 2 * (not is_same)
        again = await kb.import_from(directory.path)
        assert (again.unchanged, [note.text for note in again.notes if "vectors" in note.text]) == (report.added, [])
        assert (await kb.check()).problem_count == 0


@pytest.mark.parametrize("is_empty", [False, True])
async def test_graph_and_chunks_are_read_from_vectors_where_their_files_are_missing_or_empty(
    kb: AsyncHeliograph, directory: Directory, *, is_empty: bool
) -> None:
    if is_empty:
        directory.nodes, directory.edges = [], []
        directory.graph()
        (directory.path / "kv_store_text_chunks.json").write_text("\n")
    else:
        (directory.path / "graph_chunk_entity_relation.graphml").unlink()
        (directory.path / "kv_store_text_chunks.json").unlink()
    ones = np.ones((2, 3))
    chunks = [{"__id__": f"chunk-{n}", "content": text, "full_doc_id": "doc-1"} for n, text in enumerate(CHUNKS)]
    _vectors(directory, "chunks", chunks, ones)
    entities = [
        {"__id__": name, "entity_name": name, "content": f"{name}\nSaid of {name}.", "source_id": "chunk-0"}
        for name in ("Scrooge", "Marley")
    ]
    _vectors(directory, "entities", entities, ones)
    relation = {"src_id": "Marley", "tgt_id": "Scrooge", "source_id": "chunk-1"}
    content = "work,fear\tMarley\nScrooge\nPartners."
    _vectors(directory, "relationships", [{"__id__": "rel-1", **relation, "content": content}], ones[:1])
    report = await kb.import_from(directory.path)
    assert (report.added, report.chunks, report.graph.entities, report.graph.relations) == (1, 2, 2, 1)
    assert noted(report, NoteKind.LEFT_OUT, "graphs, since") == 1
    assert noted(report, NoteKind.LEFT_OUT, "files that are empty") == is_empty
    entity, found = await kb.entity("Marley"), await kb.relation("Scrooge", "Marley")
    assert entity is not None
    assert found is not None
    assert (entity.description, found.description, found.keywords) == (
        *("Said of Marley.", "Partners."),
        ("fear", "work"),
    )


async def test_what_a_fork_writes_is_kept_in_metadata_and_long_keywords_are_whole(
    kb: AsyncHeliograph, directory: Directory
) -> None:
    said = directory.edges[0][2]
    said["keywords"] = long = "the long partnership of the two men " * 9
    directory.graph()
    path = directory.path / "graph_chunk_entity_relation.graphml"
    text = path.read_text("utf-8")
    text = text.replace("<graph ", '<key id="x" for="edge" attr.name="valid_from" attr.type="string"/><graph ', 1)
    path.write_text(text.replace("</edge>", '<data key="x">1843</data></edge>', 1), "utf-8")
    report = await kb.import_from(directory.path)
    assert noted(report, NoteKind.REMARK, "valid_from") == 1
    document, relation = await kb.document("doc-1"), await kb.relation("Scrooge", "Marley")
    assert document is not None
    assert relation is not None
    (kept,) = document.metadata["lightrag_attributes"].values()
    assert kept == {"valid_from": "1843"}
    assert relation.keywords == (long.strip(),)


async def test_export_for_lightrag_and_back_changes_nothing(
    kb: AsyncHeliograph, directory: Directory, tmp_path: Path
) -> None:
    await kb.import_from(directory.path)
    await kb.insert("# Ball\n\nFezziwig dances with Scrooge.", sources=["notes/ball.md"], metadata=[{"year": 1843}])
    await kb.export(tmp_path / "out", "lightrag")
    again = await kb.import_from(tmp_path / "out")
    assert (again.added, again.updated, again.failed, again.unchanged) == (0, 0, 0, 3)
    async with AsyncHeliograph(tmp_path / "second", embedding=FakeEmbeddingModel()) as other:
        report = await other.import_from(tmp_path / "out")
        assert (report.added, report.failed) == (3, 0)
        assert await _told(other) == await _told(kb)
        assert noted(report, NoteKind.REMARK, "vectors are kept") > 0
        await other.export(tmp_path / "again", "lightrag")
    for file in ("full_docs", "text_chunks", "entity_chunks", "relation_chunks", "full_entities", "full_relations"):
        one, two = (
            json.loads((tmp_path / name / f"kv_store_{file}.json").read_text("utf-8")) for name in ("out", "again")
        )
        assert _without_moments(one) == _without_moments(two)


async def test_chunks_that_could_not_be_read_stay_so_in_an_export_for_lightrag_and_back(
    kb: AsyncHeliograph, directory: Directory, tmp_path: Path
) -> None:
    directory.store("doc_status", {"doc-1": {"status": "failed", "error_msg": "C[1/3]: timeout"}})
    rows = {f"chunk-{n}": {"content": text, "chunk_order_index": n, "full_doc_id": "doc-1"} for n, text in UNFINISHED}
    directory.store("text_chunks", rows)
    await kb.import_from(directory.path)
    await kb.export(tmp_path / "out", "lightrag")
    async with AsyncHeliograph(tmp_path / "second", embedding=FakeEmbeddingModel()) as other:
        await other.import_from(tmp_path / "out")
        one, two = [await each.document("doc-1") for each in (kb, other)]
        assert one is not None
        assert two is not None
        assert (two.status, two.error) == (one.status, one.error) == (DocumentStatus.PARTIAL, one.error)
        unread = [
            [
                item.chunk_id
                for item in await each.store.records.get_extractions([c.id for c in await each.chunks("doc-1")])
                if item.error
            ]
            for each in (kb, other)
        ]
        assert unread[0] == unread[1] != []


def _without_moments(rows: dict[str, Any]) -> dict[str, Any]:
    moments = {"create_time", "update_time"}
    return {id_: {name: row[name] for name in row if name not in moments} for id_, row in rows.items()}


async def _told(kb: AsyncHeliograph) -> list[Any]:
    """Return all that a workspace says, in an order of its own."""
    contents = Contents(kb.store)
    documents = [
        (
            *(item.document.id, item.document.source, item.document.title, dict(item.document.metadata), item.text),
            *((chunk.id, chunk.text) for chunk in item.chunks),
        )
        async for item in contents.documents()
    ]
    entities = [(item.name, item.type, item.description, item.degree) async for item in contents.entities()]
    relations = [
        (item.source, item.target, item.keywords, item.description, item.weight) async for item in contents.relations()
    ]
    return [documents, entities, relations]


def test_spelling_is_taken_from_the_chunks_and_only_for_names_in_capitals() -> None:
    node = GraphNode("SCROOGE", '"SCROOGE"', "", (), (), is_shouted=True)
    assert restore_spelling(node, ["SCROOGE AND SCROOGE", "Scrooge said. scrooge? Scrooge!"]) == "Scrooge"
    assert restore_spelling(node, ["SCROOGE only", "Scroogelike"]) == "SCROOGE"
    assert restore_spelling(GraphNode("NASA", "NASA", "", (), (), is_shouted=False), ["nasa"]) == "NASA"


@given(
    descriptions=st.lists(st.text("abc", min_size=1, max_size=3), max_size=12, unique=True),
    count=st.integers(1, 12),
    weight=st.floats(0.001, 1_000_000, allow_nan=False).map(lambda weight: round(weight, 6)),
)
def test_fold_of_what_was_shared_out_gives_it_back(descriptions: list[str], count: int, weight: float) -> None:
    texts = {"doc-1": [f"{n}" for n in range(count)], "doc-2": ["x", "y"]}
    chunks = [chunk for id_, said in texts.items() for chunk in place_chunks(id_, joined(said))]
    ids = [chunk.id for chunk in reversed(chunks)]
    table = MentionTable(chunks)
    table.add_entity(GraphNode("A", "A", "Person", tuple(descriptions), (), is_shouted=False), "A", ids)
    table.add_relation(GraphEdge("A", "B", ("A", "B"), "k", weight, tuple(descriptions), ()), ("A", "B"), ids)
    said = [table.extraction(id_) for id_ in ids]
    entities = [item for extraction in said for item in extraction.entities if item.name == "A"]
    relations = [item for extraction in said for item in extraction.relations]
    limits = EvidenceFold(50, 50, 1200)
    entity = apply_entity_delta(empty_entity_evidence("ent-a"), (), entities, limits.leading)
    relation = apply_relation_delta(
        empty_relation_evidence("rel", end_ids(relations[0])), (), relations, limits.leading
    )
    for folded in (entity, relation):
        assert "<SEP>".join(limits.fragments(folded)).split("<SEP>") == (descriptions or [""])
    assert relation.weight_millionths == round(weight * 1_000_000)
    assert {item.type for item in entities} == {"person"}
    assert all(
        item.rank in {mention_rank(c.document_id, c.position, is_subject=False) for c in chunks} for item in entities
    )
