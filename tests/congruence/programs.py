"""Programs as people write them against LightRAG, from its documentation; each returns what it saw as plain data.

They import from the package named by `lib`, `lightrag` or `heliograph.lightrag`, and from nothing else but `fakes`.
What LightRAG says in no fixed order is sorted here.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import csv
from importlib import import_module
from pathlib import Path

if __package__:
    from . import fakes
else:
    import fakes


class Library:
    """One of the two packages, by name."""

    def __init__(self, name):
        self.name = name

    def __getattr__(self, name):
        return getattr(import_module(self.name), name)

    def module(self, name):
        return import_module(f"{self.name}.{name}")

    def make(self, folder, **fields):
        """Return a LightRAG over the fakes."""
        utils = self.module("utils")
        given = {
            "working_dir": str(folder),
            "llm_model_func": fakes.model,
            "embedding_func": utils.EmbeddingFunc(embedding_dim=fakes.DIMENSION, max_token_size=8192, func=fakes.embed),
            "tokenizer": utils.Tokenizer("characters", fakes.Characters()),
        }
        return self.LightRAG(**(given | fields))

    async def open(self, folder, **fields):
        rag = self.make(folder, **fields)
        await rag.initialize_storages()
        await self.module("kg.shared_storage").initialize_pipeline_status()
        return rag


def parts(text):
    """Return what stands between separators, sorted: LightRAG puts it in order of time."""
    return sorted(set((text or "").split("<SEP>")))


def node(data):
    if data is None:
        return None
    return {
        **{name: data[name] for name in ("entity_id", "entity_type")},
        **{name: parts(data[name]) for name in ("description", "source_id", "file_path")},
        "created_at": type(data["created_at"]).__name__,
    }


def edge(data):
    if data is None:
        return None
    return {
        "weight": data["weight"],
        "keywords": sorted(word.strip() for word in data["keywords"].split(",")),
        **{name: parts(data[name]) for name in ("description", "source_id", "file_path")},
        "created_at": type(data["created_at"]).__name__,
    }


def graph(found):
    return {
        "nodes": sorted(([item.id, item.labels, node(item.properties)] for item in found.nodes), key=str),
        "edges": sorted(
            ([sorted((item.source, item.target)), item.type, edge(item.properties)] for item in found.edges), key=str
        ),
        "is_truncated": found.is_truncated,
    }


def data(result):
    """Return the data of a question, lists sorted by name."""
    found = result["data"]
    return {
        "status": result["status"],
        "message": result["message"],
        "keys": sorted(found),
        "entities": sorted(
            (
                [
                    *(item["entity_name"], item["entity_type"], parts(item["description"])),
                    *(parts(item["source_id"]), parts(item["file_path"]), sorted(item)),
                ]
                for item in found.get("entities", ())
            ),
            key=str,
        ),
        "relationships": sorted(
            (
                [
                    *(
                        sorted((item["src_id"], item["tgt_id"])),
                        item["weight"],
                        sorted(map(str.strip, item["keywords"].split(","))),
                    ),
                    *(parts(item["description"]), parts(item["source_id"]), parts(item["file_path"]), sorted(item)),
                ]
                for item in found.get("relationships", ())
            ),
            key=str,
        ),
        "chunks": sorted(
            ([item["chunk_id"], item["content"], item["file_path"], sorted(item)] for item in found.get("chunks", ())),
            key=str,
        ),
        "references": sorted(item["file_path"] for item in found.get("references", ())),
        "metadata": result["metadata"],
    }


def status(item):
    """Return a document's state, as an object or as a dict."""
    get = item.get if isinstance(item, dict) else lambda name: getattr(item, name)
    state = get("status")
    return {
        **{name: get(name) for name in ("content_summary", "content_length", "file_path", "chunks_count")},
        "chunks_list": sorted(get("chunks_list") or []),
        "status": getattr(state, "value", state),
        "error_msg": bool(get("error_msg")),
        "content_hash": get("content_hash"),
        "times": [type(get(name)).__name__ for name in ("created_at", "updated_at")],
    }


FILES = ["aurora.md", "heron.md", "kyoto.md"]


async def insert_with_files(lib, folder):
    rag = await lib.open(folder)
    track = await rag.ainsert(fakes.TEXTS, file_paths=[f"notes/{name}" for name in FILES], track_id="batch-1")
    found = await rag.aget_docs_by_track_id(track)
    states = await rag.get_processing_status()
    whole = await rag.get_knowledge_graph("*")
    await rag.finalize_storages()
    return {
        "track": track,
        "documents": {id_: status(item) for id_, item in found.items()},
        "states": {name: count for name, count in states.items() if count},
        "graph": graph(whole),
    }


async def insert_with_ids(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS[:2], ids=["one", "two"])
    found = await rag.aget_docs_by_ids(["one", "two", "three"])
    info = await rag.get_entity_info("Heron")
    await rag.finalize_storages()
    return {"documents": {id_: status(item) for id_, item in found.items()}, "heron": node(info["graph_data"])}


async def errors_of_insert(lib, folder):
    rag = await lib.open(folder)
    errors = []
    for call in (
        lambda: rag.ainsert(["a b c", "d e f"], ids=["same", "same"]),
        lambda: rag.ainsert(["a b c", "d e f"], ids=["one"]),
        lambda: rag.ainsert(["a b c", "d e f"], file_paths=["one.md"]),
    ):
        try:
            await call()
        except ValueError as error:
            errors.append(str(error))
    counts = await rag.get_processing_status()
    await rag.finalize_storages()
    return {"errors": errors, "states": {name: count for name, count in counts.items() if count}}


async def duplicates(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS[0], file_paths="a.md", track_id="first")
    seen = {}
    for track, text, path in (
        ("same-name", fakes.TEXTS[1], "a.md"),
        ("same-text", fakes.TEXTS[0], "b.md"),
        ("new", fakes.TEXTS[1], "c.md"),
    ):
        await rag.ainsert(text, file_paths=path, track_id=track)
        found = await rag.aget_docs_by_track_id(track)
        seen[track] = [
            status(item) | {"error": item.error_msg, "metadata": _of_duplicate(item.metadata)}
            for item in found.values()
        ]
    again = await rag.apipeline_enqueue_documents(fakes.TEXTS[0], file_paths="a.md")
    await rag.finalize_storages()
    return {"seen": seen, "again": again}


def _of_duplicate(metadata):
    return {name: value for name, value in (metadata or {}).items() if "duplicate" in name or "original" in name}


async def pipeline_in_two_steps(lib, folder):
    rag = await lib.open(folder)
    track = await rag.apipeline_enqueue_documents(fakes.TEXTS, file_paths=FILES, track_id="later")
    before = await rag.get_processing_status()
    await rag.apipeline_process_enqueue_documents()
    after = await rag.get_processing_status()
    await rag.finalize_storages()
    kept = [{name: count for name, count in states.items() if count} for states in (before, after)]
    return {"track": track, "before": kept[0], "after": kept[1]}


async def split_by_character(lib, folder):
    rag = await lib.open(folder, chunk_token_size=60, chunk_overlap_token_size=10)
    text = "Kyoto funds the Meridian archive.\n\nBob Tanaka built the Heron sensor in Kyoto."
    await rag.ainsert(text, split_by_character="\n\n", file_paths="split.md", track_id="split")
    await rag.ainsert("x" * 200 + "\n\nshort", "\n\n", True, file_paths="long.md", track_id="long")
    documents = {
        **await rag.aget_docs_by_track_id("split"),
        **await rag.aget_docs_by_track_id("long"),
    }
    split = next(item for item in documents.values() if item.file_path == "split.md")
    chunks = await rag.text_chunks.get_by_ids(split.chunks_list)
    await rag.finalize_storages()
    told = [[chunk["content"], chunk["chunk_order_index"], chunk["file_path"]] for chunk in chunks]
    states = {item.file_path: [item.status.value, item.chunks_count] for item in documents.values()}
    return {"chunks": told, "split": states["split.md"], "long": states["long.md"][0]}


async def chunking_function(lib, folder):
    def by_sentence(tokenizer, content, split_by_character, split_by_character_only, overlap, size):
        sentences = [part.strip() + "." for part in content.split(".") if part.strip()]
        return [
            {"tokens": len(tokenizer.encode(item)), "content": item, "chunk_order_index": index}
            for index, item in enumerate(sentences)
        ]

    rag = await lib.open(folder, chunking_func=by_sentence)
    await rag.ainsert(fakes.TEXTS[0], file_paths="sentences.md", track_id="t")
    (found,) = (await rag.aget_docs_by_track_id("t")).values()
    chunks = await rag.text_chunks.get_by_ids(found.chunks_list)
    await rag.finalize_storages()
    return {"document": status(found), "chunks": [[chunk["content"], chunk["tokens"]] for chunk in chunks][:1]}


async def query_modes(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    question = "Which leadership and measurement does Alice Moreau have with Heron?"
    seen = {}
    for mode in ("local", "global", "hybrid", "mix", "naive", "bypass"):
        param = lib.QueryParam(mode=mode, top_k=10, chunk_top_k=5, enable_rerank=False)
        seen[mode] = {"data": data(await rag.aquery_data(question, param)), "answer": await rag.aquery(question, param)}
    await rag.finalize_storages()
    return seen


async def query_llm_and_stream(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    question = "What funding does Kyoto give?"
    whole = await rag.aquery_llm(question, lib.QueryParam(mode="hybrid", enable_rerank=False))
    streamed = await rag.aquery(question, lib.QueryParam(mode="mix", stream=True, enable_rerank=False))
    pieces = "".join([piece async for piece in streamed])
    told = await rag.aquery_llm(question, lib.QueryParam(mode="naive", stream=True, enable_rerank=False))
    response = dict(told["llm_response"])
    text = "".join([piece async for piece in response.pop("response_iterator")])
    bypass = await rag.aquery_llm("hi", lib.QueryParam(mode="bypass"))
    await rag.finalize_storages()
    return {"whole": data(whole), "response": whole["llm_response"], "pieces": pieces} | {
        "told": response,
        "text": text,
        "bypass": bypass,
    }


async def given_keywords(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    before = fakes.CALLS.count("keywords")
    param = lib.QueryParam(mode="hybrid", hl_keywords=["funding"], ll_keywords=["Bob Tanaka"], enable_rerank=False)
    found = await rag.aquery_data("Who is behind the archive?", param)
    calls = fakes.CALLS.count("keywords") - before
    await rag.finalize_storages()
    return {"found": data(found), "calls": calls}


async def errors_of_query(lib, folder):
    rag = await lib.open(folder)
    exceptions = lib.module("query_validation" if lib.name == "lightrag" else "exceptions")
    seen = []
    for question, mode in (("", "mix"), ("   ", "bypass"), ("ab", "mix"), ("好", "local")):
        try:
            await rag.aquery(question, lib.QueryParam(mode=mode))
        except exceptions.EmptyQueryError:
            seen.append("empty")
        except exceptions.RAGQueryTooShortError:
            seen.append("short")
    nothing = await rag.aquery_llm("Is anything here?", lib.QueryParam(mode="naive"))
    kind = await rag.aquery_llm("Is anything here?", lib.QueryParam(mode="nonsense"))
    try:
        await rag.aquery_data("Is anything here?", lib.QueryParam(mode="nonsense"))
    except ValueError:
        seen.append("mode")
    await rag.finalize_storages()
    return {
        "seen": seen,
        "nothing": {name: nothing[name] for name in ("status", "data", "llm_response")},
        "kind": [kind["status"], kind["data"], kind["llm_response"]],
    }


async def model_down(lib, folder):
    rag = await lib.open(folder, llm_model_func=fakes.failing)
    await rag.ainsert(fakes.TEXTS[1], file_paths="down.md", track_id="down")
    (found,) = (await rag.aget_docs_by_track_id("down")).values()
    result = await rag.aquery_llm("Who built it then?", lib.QueryParam(mode="bypass"))
    answer = await rag.aquery("Who built it then?", lib.QueryParam(mode="bypass"))
    await rag.finalize_storages()
    return {
        "state": found.status.value,
        "has_error": bool(found.error_msg),
        "status": result["status"],
        "response": result["llm_response"],
        "answer": answer,
    }


CUSTOM = {
    "chunks": [
        {"content": "Nadia founded the Solstice lab.", "source_id": "doc-1", "file_path": "lab.md"},
        {"content": "The Solstice lab studies glass.", "source_id": "doc-2", "file_path": "glass.md"},
    ],
    "entities": [
        {"entity_name": "Nadia", "entity_type": "person", "description": "Nadia is a founder.", "source_id": "doc-1"},
        {
            "entity_name": "Solstice",
            "entity_type": "organization",
            "description": "Solstice is a lab.",
            "source_id": "doc-2",
            "file_path": "glass.md",
        },
    ],
    "relationships": [
        {
            "src_id": "Nadia",
            "tgt_id": "Solstice",
            "description": "Nadia founded Solstice.",
            "keywords": "founding",
            "weight": 2.0,
            "source_id": "doc-1",
        }
    ],
}


async def custom_kg(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert_custom_kg(CUSTOM)
    await rag.ainsert_custom_kg(CUSTOM)
    nadia, relation = await rag.get_entity_info("Nadia"), await rag.get_relation_info("Solstice", "Nadia")
    errors = []
    for broken in (
        {"relationships": [{"src_id": "A", "tgt_id": "A", "description": "d", "keywords": "k"}]},
        {"entities": [{"entity_name": "  "}]},
        {"relationships": [{"src_id": "A", "tgt_id": "B", "description": "d", "keywords": "k", "weight": -1}]},
    ):
        try:
            await rag.ainsert_custom_kg(broken)
        except ValueError:
            errors.append("ValueError")
    labels = await rag.get_graph_labels()
    found = await rag.aquery_data("What does the Solstice lab study?", lib.QueryParam(mode="naive"))
    await rag.finalize_storages()
    fields = ("entity_id", "entity_type", "description", "source_id")
    return {
        "nadia": {name: nadia["graph_data"][name] for name in fields},
        "relation": {name: relation["graph_data"][name] for name in ("weight", "keywords", "description", "source_id")},
        "errors": errors,
        "labels": labels,
        "chunks": sorted([item["chunk_id"], item["content"], item["file_path"]] for item in found["data"]["chunks"]),
    }


async def edit_the_graph(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    made = await rag.acreate_entity(
        "Delphi", {"entity_type": "organization", "description": "Delphi is a bureau.", "source_id": "import-7"}
    )
    plain = await rag.acreate_entity("Tundra", {"description": "Tundra is a plain."})
    related = await rag.acreate_relation(
        "Delphi", "Heron", {"description": "Delphi owns Heron.", "keywords": "ownership", "weight": 3.0}
    )
    edited = await rag.aedit_entity("Delphi", {"description": "Delphi is an old bureau.", "entity_type": "office"})
    renamed = await rag.aedit_entity("Delphi", {"entity_name": "Delphi Bureau"})
    changed = await rag.aedit_relation("Heron", "Delphi Bureau", {"keywords": "property", "weight": 4.0})
    errors = []
    for call in (
        lambda: rag.acreate_entity("Heron", {"description": "again"}),
        lambda: rag.acreate_entity("Empty", {"description": ""}),
        lambda: rag.acreate_relation("Heron", "Nobody", {"description": "d"}),
        lambda: rag.acreate_relation("Heron", "Kyoto", {"description": "d"}),
        lambda: rag.acreate_relation("Heron", "Heron", {"description": "d"}),
        lambda: rag.aedit_entity("Nobody", {"description": "d"}),
        lambda: rag.aedit_entity("Heron", {"colour": "blue"}),
        lambda: rag.aedit_entity("Heron", {"entity_name": "Kyoto"}),
        lambda: rag.aedit_entity("Heron", {"entity_name": "Crane"}, allow_rename=False),
        lambda: rag.aedit_relation("Heron", "Lisbon", {"description": "d"}),
        lambda: rag.aedit_relation("Heron", "Kyoto", {"colour": "blue"}),
    ):
        try:
            await call()
            errors.append(None)
        except ValueError:
            errors.append("ValueError")
    merged = await rag.aedit_entity("Tundra", {"entity_name": "Lisbon"}, allow_merge=True)
    await rag.finalize_storages()
    return {
        "made": [made["entity_name"], made["source_id"], node(made["graph_data"])],
        "plain": node(plain["graph_data"]),
        "related": [sorted((related["src_entity"], related["tgt_entity"])), edge(related["graph_data"])],
        "edited": [node(edited["graph_data"]), edited["operation_summary"]],
        "renamed": [renamed["entity_name"], renamed["operation_summary"]],
        "changed": edge(changed["graph_data"]),
        "errors": errors,
        "merged": [merged["entity_name"], merged["operation_summary"]],
    }


async def merge_entities(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    merged = await rag.amerge_entities(
        source_entities=["Alice Moreau", "Bob Tanaka"],
        target_entity="The Team",
        target_entity_data={"entity_type": "group", "description": "The two who made it."},
    )
    relations = [await rag.get_relation_info("The Team", name) for name in ("Aurora", "Heron")]
    gone = await rag.get_entity_info("Alice Moreau") if lib.name == "lightrag" else None
    errors = []
    for names in (["Nobody"], []):
        try:
            await rag.amerge_entities(names, "The Team")
        except ValueError:
            errors.append("ValueError")
    labels = await rag.get_graph_labels()
    await rag.finalize_storages()
    assert gone is None or gone["graph_data"] is None
    return {
        "merged": [merged["entity_name"], node(merged["graph_data"])],
        "relations": [edge(item["graph_data"]) for item in relations],
        "labels": labels,
        "errors": errors,
    }


async def delete_things(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES, ids=["a", "b", "c"])
    results = [await rag.adelete_by_doc_id("b"), await rag.adelete_by_doc_id("nothing")]
    after = graph(await rag.get_knowledge_graph("*"))
    results += [await rag.adelete_by_relation("Kyoto", "Meridian"), await rag.adelete_by_relation("Kyoto", "Aurora")]
    results += [await rag.adelete_by_entity("Lisbon"), await rag.adelete_by_entity("Atlantis")]
    labels = await rag.get_graph_labels()
    states = await rag.get_processing_status()
    await rag.finalize_storages()
    return {
        "results": [[item.status, item.doc_id, item.message, item.status_code] for item in results],
        "after": after,
        "labels": labels,
        "states": {name: count for name, count in states.items() if count},
    }


async def names_that_are_gone(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    for name in ("Drake", "Mallard", "Teal"):
        await rag.acreate_entity(name, {"description": f"{name} is a duck."})
        await rag.acreate_relation(name, "Heron", {"description": f"{name} meets Heron."})
    await rag.amerge_entities(["Drake"], "Heron")
    await rag.aedit_entity("Mallard", {"entity_name": "Wild Duck"})
    results = [await rag.adelete_by_entity("Drake"), await rag.adelete_by_relation("Teal", "Drake")]
    labels = await rag.get_graph_labels()
    again = await rag.acreate_entity("Drake", {"description": "Drake is an explorer."})
    renamed = await rag.aedit_entity("Teal", {"entity_name": "Mallard"})
    kept = await rag.get_relation_info("Heron", "Wild Duck")
    await rag.finalize_storages()
    return {
        "results": [[item.status, item.doc_id, item.message, item.status_code] for item in results],
        "labels": labels,
        "again": node(again["graph_data"]),
        "renamed": [renamed["entity_name"], renamed["operation_summary"]],
        "kept": edge(kept["graph_data"]),
    }


async def parts_of_the_graph(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    near = await rag.get_knowledge_graph("Heron", max_depth=1)
    few = await rag.get_knowledge_graph("*", max_nodes=2)
    none = await rag.get_knowledge_graph("Atlantis")
    store = rag.chunk_entity_relation_graph
    told = [await store.has_node("Heron"), await store.has_edge("Kyoto", "Heron"), await store.node_degree("Heron")]
    edges = sorted(sorted(pair) for pair in await store.get_node_edges("Heron"))
    await rag.finalize_storages()
    return {
        "near": graph(near),
        "few": [len(few.nodes), few.is_truncated],
        "none": graph(none),
        "told": told,
        "edges": edges,
    }


async def reranked(lib, folder):
    rag = await lib.open(folder, rerank_model_func=fakes.rerank, min_rerank_score=0.05)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    param = lib.QueryParam(mode="naive", chunk_top_k=2)
    found = await rag.aquery_data("Who built the Heron sensor in Kyoto?", param)
    await rag.finalize_storages()
    return {"chunks": [[item["content"], item["file_path"]] for item in found["data"]["chunks"]]}


async def exports(lib, folder):
    rag = await lib.open(folder / "kb")
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    seen = {}
    for form in ("csv", "md", "txt"):
        path = folder / f"graph.{form}"
        await rag.aexport_data(str(path), file_format=form, include_vector_data=form == "csv")
        text = path.read_text("utf-8")
        seen[form] = [line for line in text.splitlines() if line.startswith(("# ", "## ", "ENT", "REL", "LIGHT"))]
    rows = list(csv.reader((folder / "graph.csv").read_text("utf-8").splitlines()))
    seen["rows"] = sorted(row[0] for row in rows if len(row) > 1 and "<SEP>" not in row[0])
    seen["pairs"] = sorted(row[:2] for row in rows if len(row) == 5)
    await rag.aexport_data(str(folder / "graph.xlsx"), file_format="excel")
    seen["excel"] = (folder / "graph.xlsx").read_bytes()[:2].decode()
    try:
        await rag.aexport_data(str(folder / "graph.pdf"), file_format="pdf")
    except ValueError:
        seen["unknown"] = "ValueError"
    await rag.finalize_storages()
    # Ids of relations follow from names here and there, but not the same way.
    seen["rows"] = [row for row in seen["rows"] if not row.startswith("rel-")]
    return seen


async def chinese(lib, folder):
    rag = await lib.open(folder, entity_extraction_use_json=True, addon_params={"language": "Chinese"})
    await rag.ainsert("北京大学研究量子计算。", file_paths="量子.md")
    found = await rag.aquery_data("量子计算的研究", lib.QueryParam(mode="mix", enable_rerank=False))
    info = await rag.get_relation_info("量子计算", "北京大学")
    await rag.finalize_storages()
    return {"found": data(found), "relation": edge(info["graph_data"])}


async def pages_of_documents(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    base = lib.module("base")
    rows, total = await rag.doc_status.get_docs_paginated(
        status_filter=base.DocStatus.PROCESSED, page=1, page_size=10, sort_field="file_path", sort_direction="asc"
    )
    failed = await rag.doc_status.get_docs_by_statuses([base.DocStatus.FAILED])
    text = await rag.full_docs.get_by_id(rows[0][0])
    await rag.finalize_storages()
    return {"rows": [[id_, status(item)] for id_, item in rows], "total": total} | {
        "none": failed,
        "text": [text["content"], text["file_path"]],
    }


async def custom_chunks(lib, folder):
    rag = await lib.open(folder)
    await rag.ainsert_custom_chunks(fakes.TEXTS[0], fakes.TEXTS[0].split(". "), doc_id="cut")
    found = (await rag.aget_docs_by_ids("cut"))["cut"]
    answer = await rag.aquery("Where is the leadership of Aurora?", lib.QueryParam(mode="mix", enable_rerank=False))
    await rag.finalize_storages()
    return {"chunks": found["chunks_count"], "status": found["status"], "answer": answer}


async def roles(lib, folder):
    seen = []

    async def for_keywords(prompt, **kwargs):
        seen.append("keyword")
        return await fakes.model(prompt, **kwargs)

    async def for_answers(prompt, **kwargs):
        seen.append("query")
        return "from the answering model"

    rag = await lib.open(
        folder,
        role_llm_configs={"keyword": {"func": for_keywords}, "query": lib.RoleLLMConfig(func=for_answers)},
        llm_model_kwargs={"temperature": 0.1},
    )
    await rag.ainsert(fakes.TEXTS[0], file_paths="a.md")
    answer = await rag.aquery("Who has the leadership of Aurora?", lib.QueryParam(mode="local", enable_rerank=False))
    await rag.aclear_cache()
    await rag.finalize_storages()
    return {"answer": answer, "seen": seen}


async def two_workspaces(lib, folder):
    one = await lib.open(folder, workspace="one")
    await one.ainsert(fakes.TEXTS[0], file_paths="a.md")
    two = await lib.open(folder, workspace="two")
    await two.ainsert(fakes.TEXTS[1], file_paths="b.md")
    labels = [await one.get_graph_labels(), await two.get_graph_labels()]
    await one.finalize_storages()
    await two.finalize_storages()
    again = await lib.open(folder, workspace="one")
    kept = await again.get_graph_labels()
    await again.finalize_storages()
    return {"labels": labels, "kept": kept}


def sync_methods(lib, folder):
    rag = asyncio.run(lib.open(folder))
    track = rag.insert(fakes.TEXTS, file_paths=FILES, track_id="sync")
    answer = rag.query("Who built Heron, by which construction?", lib.QueryParam(mode="hybrid", enable_rerank=False))
    found = rag.query_data("Who built Heron, by which construction?", lib.QueryParam(mode="local", enable_rerank=False))
    made = rag.create_entity("Delphi", {"description": "Delphi is a bureau."})
    gone = rag.delete_by_entity("Delphi")
    return {"track": track, "answer": answer, "found": data(found), "made": made["entity_name"], "gone": gone.status}


async def sync_in_a_loop(lib, folder):
    rag = await lib.open(folder)
    seen = []
    for call in (lambda: rag.insert("text"), lambda: rag.query("question"), lambda: rag.delete_by_entity("X")):
        try:
            call()
        except RuntimeError:
            seen.append("RuntimeError")
    await rag.finalize_storages()
    return seen


PROGRAMS = [
    insert_with_files,
    insert_with_ids,
    errors_of_insert,
    duplicates,
    pipeline_in_two_steps,
    split_by_character,
    chunking_function,
    query_modes,
    query_llm_and_stream,
    given_keywords,
    errors_of_query,
    model_down,
    custom_kg,
    edit_the_graph,
    merge_entities,
    delete_things,
    names_that_are_gone,
    parts_of_the_graph,
    reranked,
    exports,
    chinese,
    pages_of_documents,
    custom_chunks,
    roles,
    two_workspaces,
    sync_methods,
    sync_in_a_loop,
]


def run(library, name, folder):
    """Run one program on a package and return what it saw."""
    prefix = f"{__package__}." if __package__ else ""
    tutorials, outsiders = import_module(f"{prefix}tutorials"), import_module(f"{prefix}outsiders")
    programs = (*PROGRAMS, *tutorials.TUTORIALS, *outsiders.OUTSIDERS)
    program = next(item for item in programs if item.__name__ == name)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if asyncio.iscoroutinefunction(program):
        return asyncio.run(program(Library(library), folder))
    return program(Library(library), folder)
