"""Programs of people who know LightRAG by trying: its helpers, odd inputs, states, sources, refusals, shapes.

They import from the package named by `lib` and from nothing else but `fakes`; `programs.py` has what they share.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import os

if __package__:
    from . import fakes
    from .programs import FILES, data, edge, graph, node, parts, status
    from .tutorials import QUESTION, _outcome
else:
    import fakes
    from programs import FILES, data, edge, graph, node, parts, status
    from tutorials import QUESTION, _outcome


async def helpers(lib, folder):
    """What programs import from `utils` beside the class: ids, texts, variables, vectors, counts of tokens."""
    utils = lib.module("utils")
    os.environ |= {
        "SOME_NUMBER": "7",
        "SOME_LIST": '["a", "b"]',
        "SOME_WORD": "x",
        "SOME_SWITCH": "On",
        "SOME_INF": "inf",
    }
    tracker = utils.TokenTracker()
    tracker.add_usage({"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5})
    tracker.add_usage({"prompt_tokens": 1})

    @utils.wrap_embedding_func_with_attrs(embedding_dim=3, max_token_size=9, model_name="three")
    async def three(texts, max_token_size=None):
        return fakes.np.ones((len(texts), 3)) * (max_token_size or 0)

    nested = utils.EmbeddingFunc(embedding_dim=3, func=three)
    short = utils.EmbeddingFunc(embedding_dim=4, func=three.func)
    tokenizer = utils.Tokenizer("characters", fakes.Characters())
    return {
        "ids": [
            utils.compute_mdhash_id("a text"),
            utils.compute_mdhash_id("中文", prefix="doc-"),
            utils.compute_args_hash("abc", "x"),
            utils.compute_args_hash("ab", "cx", 1, None),
            utils.compute_args_hash("alone"),
            utils.compute_args_hash(),
        ],
        "texts": [
            utils.sanitize_text_for_encoding(text)
            for text in ("  a\x00b ", "R&amp;D &lt;1&gt;", "tab\tand\nline\x85", "\ud800x", "", "   ")
        ],
        "names": [
            utils.normalize_entity_name(text) for text in (' "Ann" ', "北京 大学", "Ａｎｎ", "《红楼梦》", "A (B)")
        ],
        "variables": [
            utils.get_env_value("SOME_NUMBER", 1, int),
            utils.get_env_value("SOME_WORD", 1, int),
            utils.get_env_value("SOME_LIST", [], list),
            utils.get_env_value("SOME_WORD", ["c"], list),
            utils.get_env_value("SOME_SWITCH", False, bool),
            utils.get_env_value("SOME_INF", 0.5, float),
            utils.get_env_value("SOME_MISSING", "none"),
        ],
        "vectors": [utils.cosine_similarity([1, 0], [1, 1]), utils.cosine_similarity([0, 0], [1, 1])],
        "tracker": [tracker.get_usage(), str(tracker)],
        "embeddings": [
            (await three(["a", "b"])).tolist(),
            (await nested(["a"])).shape[1],
            nested.func is three.func,
            [three.embedding_dim, three.max_token_size, three.model_name],
            await _outcome(lambda: short(["a"])),
        ],
        "tokens": [tokenizer.encode("ab"), tokenizer.decode([97]), tokenizer.model_name],
        "track": utils.generate_track_id("mine")[:5],
        "windows": [
            [item["content"], item["tokens"], item["chunk_order_index"]]
            for item in lib.module("chunker").chunking_by_token_size(tokenizer, "abcdefghij", None, False, 2, 5)
        ],
    }


def shapes(lib, folder):
    """Fields, defaults and names that programs rely on when they build, print or compare things."""
    base, types, exceptions = lib.module("base"), lib.module("types"), lib.module("query_validation")

    def fields(kind):
        return [
            [item.name, repr(item.default) if item.default is not dataclasses.MISSING else "", item.init]
            for item in dataclasses.fields(kind)
            if not item.name.startswith("_")
        ]

    def parameters(method):
        return [
            name for name, item in inspect.signature(getattr(lib.LightRAG, method)).parameters.items() if item.kind < 3
        ]

    methods = (
        *("ainsert", "aquery", "aquery_data", "aquery_llm", "ainsert_custom_kg", "ainsert_custom_chunks"),
        *("adelete_by_doc_id", "adelete_by_entity", "adelete_by_relation", "aedit_entity", "aedit_relation"),
        *("acreate_entity", "acreate_relation", "amerge_entities", "aexport_data", "get_entity_info"),
        *("get_relation_info", "get_knowledge_graph", "get_graph_labels", "get_processing_status", "aget_docs_by_ids"),
        *("aget_docs_by_track_id", "aclear_cache", "initialize_storages", "finalize_storages"),
        *("insert", "query", "query_data", "insert_custom_kg", "delete_by_entity", "create_entity", "export_data"),
    )
    param = base.QueryParam(mode="local", top_k=3)
    status_ = base.DocProcessingStatus("a …", 3, "a.md", base.DocStatus.PROCESSED, "now", "later")
    drawn = types.KnowledgeGraph(nodes=[types.KnowledgeGraphNode(id="a", labels=["a"], properties={"x": 1})])
    # What is made by a factory differs in nothing that a program sees.
    made = [item.name for item in dataclasses.fields(lib.LightRAG) if item.init and not item.name.startswith("_")]
    constants = lib.module("constants")
    return {
        "param": [sorted(dataclasses.asdict(param)), param.mode, param.top_k, param.chunk_top_k, repr(param)[:60]],
        "order": [item[0] for item in fields(base.QueryParam)],
        "states": [[item.name, item.value, str(item), f"{item}"] for item in base.DocStatus],
        "deletion": [fields(base.DeletionResult), repr(base.DeletionResult("success", "d", "m"))],
        "status": [dataclasses.asdict(status_), status_.status == "processed"],
        "drawn": [drawn.model_dump(), drawn.is_truncated],
        "methods": {method: parameters(method) for method in methods},
        "fields": made,
        "errors": [
            [kind.__name__, issubclass(kind, ValueError), issubclass(kind, exceptions.QueryValidationError)]
            for kind in (exceptions.EmptyQueryError, exceptions.RAGQueryTooShortError)
        ],
        "roles": [spec.name for spec in lib.ROLES],
        "constants": [
            constants.GRAPH_FIELD_SEP,
            constants.DEFAULT_TOP_K,
            constants.DEFAULT_CHUNK_TOP_K,
            constants.DEFAULT_MAX_ENTITY_TOKENS,
            constants.DEFAULT_MAX_RELATION_TOKENS,
            constants.DEFAULT_MAX_TOTAL_TOKENS,
            constants.DEFAULT_COSINE_THRESHOLD,
            constants.DEFAULT_MAX_GRAPH_NODES,
        ],
    }


async def progress_told(lib, folder):
    """The stages of a question, and what `aquery_llm` gives beside answers."""
    rag = await lib.open(folder, rerank_model_func=fakes.rerank)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    seen = {}

    for mode in ("local", "global", "hybrid", "mix", "naive"):
        told = []

        async def tell(stage, told=told):
            told.append(stage)

        await rag.aquery_llm(QUESTION, lib.QueryParam(mode=mode), progress_callback=tell)
        await asyncio.sleep(0)
        # Ours tells of the answer in every mode.
        seen[mode] = [stage for stage in dict.fromkeys(told) if mode != "naive" or stage != "generating_response"]
    context = await rag.aquery_llm(QUESTION, lib.QueryParam(mode="naive", only_need_context=True))
    prompt = await rag.aquery_llm(QUESTION, lib.QueryParam(mode="local", only_need_prompt=True, stream=True))
    system = await rag.aquery_llm(QUESTION, lib.QueryParam(mode="bypass"), system_prompt="Be short.")
    await rag.finalize_storages()
    return seen | {
        "context": [context["status"], sorted(context["data"]), context["llm_response"]["is_streaming"]],
        "prompt": [prompt["status"], sorted(prompt["data"]), prompt["llm_response"]["is_streaming"]],
        "generated": [context["llm_response"]["llm_generated"], prompt["llm_response"]["llm_generated"]],
        "system": system,
    }


async def odd_texts(lib, folder):
    """Texts and names that people hand over by accident."""
    rag = await lib.open(folder)
    seen = {}
    calls = {
        "markup": lambda: rag.ainsert("R&amp;D in Kyoto.\x00 Kyoto funds the Meridian archive.", track_id="markup"),
        "folders": lambda: rag.ainsert(
            [fakes.TEXTS[0], fakes.TEXTS[1]], file_paths=["/srv/in/aurora.md", "in/heron.md"], track_id="folders"
        ),
        "no names": lambda: rag.ainsert(
            ["One text here.", "Two text here."], file_paths=["", "  "], track_id="no names"
        ),
        "twice": lambda: rag.ainsert(["Same words.", "Same words."], file_paths=["x.md", "y.md"], track_id="twice"),
        "one name": lambda: rag.ainsert(
            ["First words.", "Other words."], file_paths=["z.md", "z.md"], track_id="one name"
        ),
        "id twice": lambda: rag.ainsert("Words with an id.", ids=["own"], track_id="id twice"),
        "id again": lambda: rag.ainsert("Other words with it.", ids=["own"], track_id="id again"),
        "few names": lambda: rag.ainsert(["a b c", "d e f"], file_paths=["a.md"]),
        "tuple": lambda: rag.ainsert(("Words in a tuple.",), file_paths=("tuple.md",), track_id="tuple"),
    }
    for name, call in calls.items():
        told = await _outcome(call)
        found = await rag.aget_docs_by_track_id(name)
        rows = sorted(
            [
                item.file_path,
                item.status.value,
                item.content_summary,
                item.content_length,
                (item.metadata or {}).get("duplicate_kind"),
                (item.metadata or {}).get("original_doc_id"),
            ]
            for item in found.values()
        )
        seen[name] = [told if told == name or not str(told).startswith("insert_") else "a track id", rows]
    seen["count"] = {name: count for name, count in (await rag.get_processing_status()).items() if count}
    await rag.finalize_storages()
    return seen


async def states_followed(lib, folder):
    """Documents that fail, wait and come again, followed by their states, page by page."""
    is_down = [True]

    async def model(prompt, system_prompt=None, history_messages=None, **kwargs):
        if is_down[0]:
            raise ConnectionError("no route")
        return await fakes.model(prompt, system_prompt, history_messages, **kwargs)

    rag = await lib.open(folder, llm_model_func=model)
    statuses = lib.module("base").DocStatus
    await rag.ainsert(fakes.TEXTS[:2], ids=["one", "two"], file_paths=FILES[:2])
    failed = await rag.doc_status.get_docs_by_statuses([statuses.FAILED])
    is_down[0] = False
    await rag.apipeline_enqueue_documents(fakes.TEXTS[2], ids=["three"], file_paths=FILES[2], track_id="late")
    waiting = await rag.doc_status.get_docs_by_statuses([statuses.PENDING])
    await rag.apipeline_process_enqueue_documents()
    after = {id_: status(item)["status"] for id_, item in (await rag.aget_docs_by_ids(["one", "two", "three"])).items()}
    pages = []
    for page, size, filters in ((1, 10, None), (2, 10, None), (1, 10, [statuses.PROCESSED, statuses.FAILED])):
        rows, total = await rag.doc_status.get_docs_paginated(
            status_filters=filters, page=page, page_size=size, sort_field="id", sort_direction="asc"
        )
        pages.append([[id_ for id_, _ in rows], total])
    counts = [await rag.doc_status.get_status_counts(), await rag.doc_status.get_all_status_counts()]
    gone = await rag.adelete_by_doc_id("one")
    left = sorted(await rag.aget_docs_by_ids(["one", "two", "three"]))
    await rag.finalize_storages()
    return {
        "not read": sorted(failed),
        "waiting": sorted(waiting),
        "after": after,
        "pages": pages,
        "counts": [{name: count for name, count in item.items() if count} for item in counts],
        "gone": [gone.status, gone.status_code, gone.file_path],
        "left": left,
    }


async def sources_kept(lib, folder):
    """Entities and relations by hand, with sources and files of their own, then merged and renamed."""
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    await rag.acreate_entity(
        "Osprey", {"description": "A bird.", "entity_type": "animal", "source_id": "import-1", "file_path": "birds.csv"}
    )
    await rag.acreate_entity("Fish Hawk", {"description": "Another name.", "entity_type": "animal"})
    await rag.acreate_relation("Osprey", "Kyoto", {"description": "Seen there.", "keywords": "seen, place"})
    await rag.acreate_relation(
        "Fish Hawk", "Kyoto", {"description": "Nests there.", "keywords": "nest", "weight": 2.5, "file_path": "b.csv"}
    )
    edited = await rag.aedit_entity("Osprey", {"source_id": "import-2", "file_path": "more.csv"})
    merged = await rag.amerge_entities(["Osprey", "Fish Hawk"], "Osprey")
    pair = await rag.get_relation_info("Kyoto", "Osprey")
    renamed = await rag.aedit_entity("Osprey", {"entity_name": "Sea Hawk", "description": "A hawk."})
    label = await rag.get_knowledge_graph("Sea Hawk", max_depth=1)
    half = await _outcome(
        lambda: rag.acreate_relation("Sea Hawk", "Lisbon", {"description": "Passing.", "weight": 0.5})
    )
    wrong = [
        await _outcome(call)
        for call in (
            lambda: rag.acreate_relation("Sea Hawk", "Heron", {"description": "d", "weight": -1}),
            lambda: rag.acreate_relation("Sea Hawk", "Heron", {"description": "d", "weight": "heavy"}),
            lambda: rag.acreate_entity("", {"description": "d"}),
            lambda: rag.acreate_entity("Kite", {}),
            lambda: rag.aedit_entity("Sea Hawk", {"description": "  "}),
            lambda: rag.aedit_relation("Sea Hawk", "Kyoto", {"weight": -2}),
        )
    ]
    deleted = [await rag.adelete_by_relation("Kyoto", "Sea Hawk"), await rag.adelete_by_entity("Sea Hawk")]
    again = await rag.acreate_entity("Sea Hawk", {"description": "Back.", "entity_type": "animal"})
    await rag.finalize_storages()
    return {
        "edited": [node(edited["graph_data"]), edited["operation_summary"]],
        # A merged entity keeps the origin of its target here, and its relations add up their weights.
        "merged": {name: node(merged["graph_data"])[name] for name in ("entity_id", "entity_type", "description")},
        "pair": {name: edge(pair["graph_data"])[name] for name in ("keywords", "description")},
        "renamed": [renamed["entity_name"], parts(renamed["graph_data"]["description"]), renamed["operation_summary"]],
        "around": sorted(item.id for item in label.nodes),
        "half": half if isinstance(half, str) else edge(half["graph_data"]),
        "wrong": wrong,
        "deleted": [[item.status, item.status_code] for item in deleted],
        "again": node(again["graph_data"]),
    }


async def refused_graphs(lib, folder):
    """Graphs that are made by a program and are wrong in one place; nothing of them is written."""
    rag = await lib.open(folder)
    chunk = {"content": "Orion ships with Lyra.", "source_id": "s", "file_path": "orion.md"}
    pair = {"src_id": "Orion", "tgt_id": "Lyra", "description": "d", "keywords": "k"}
    seen = {}
    for name, given in {
        "nothing": {},
        "number": {"entities": [{"entity_name": 7}]},
        "itself": {"chunks": [chunk], "relationships": [pair | {"tgt_id": "Orion"}]},
        "light": {"chunks": [chunk], "relationships": [pair | {"source_id": "s", "weight": 0.5}]},
        "word": {"chunks": [chunk], "relationships": [pair | {"weight": "much"}]},
        "no end": {"relationships": [pair | {"src_id": '""'}]},
    }.items():
        told = await _outcome(lambda given=given: rag.ainsert_custom_kg(given))
        seen[name] = [told, await rag.get_graph_labels()]
    # A source that is none of the graph's is no evidence, so a relation may be as light as it says.
    await rag.ainsert_custom_kg(
        {
            "chunks": [chunk],
            "relationships": [pair | {"source_id": "elsewhere", "weight": 0.5}, pair | {"tgt_id": "Vega"}],
        }
    )
    light = await rag.get_relation_info("Orion", "Lyra")
    whole = await rag.get_knowledge_graph("*")
    found = await rag.aquery_data("What ships with Lyra?", lib.QueryParam(mode="naive", enable_rerank=False))
    await rag.finalize_storages()
    return seen | {
        "light": light["graph_data"]["weight"],
        "whole": [sorted(item.id for item in whole.nodes), len(whole.edges)],
        "found": data(found)["chunks"],
    }


async def used_directly(lib, folder):
    """An instance whose parts are called by hand, a subclass, and one that is closed and opened again."""

    class Counting(lib.LightRAG):
        def __post_init__(self, *args):
            super().__post_init__(*args)
            self.inserted = 0

        async def ainsert(self, *args, **kwargs):
            self.inserted += 1
            return await super().ainsert(*args, **kwargs)

    plain = lib.make(folder)
    rag = Counting(
        **{name: getattr(plain, name) for name in ("working_dir", "llm_model_func", "embedding_func", "tokenizer")}
    )
    await rag.initialize_storages()
    await rag.ainsert(fakes.TEXTS, ids=["a", "b", "c"], file_paths=FILES)
    vectors = await rag.embedding_func(["Heron", "Kyoto"])
    rows = await rag.text_chunks.get_by_ids(["a-chunk-000", "none"])
    await rag.finalize_storages()
    await rag.initialize_storages()
    answer = await rag.aquery(QUESTION, lib.QueryParam(mode="hybrid", enable_rerank=False))
    whole = graph(await rag.get_knowledge_graph("Kyoto", max_depth=2, max_nodes=4))
    await rag.finalize_storages()
    return {
        "inserted": rag.inserted,
        "vectors": [list(vectors.shape), str(vectors.dtype)],
        "rows": [row and [row["content"], row["full_doc_id"], row["file_path"]] for row in rows],
        "answer": answer,
        "whole": whole,
        "names": [rag.workspace, rag.tokenizer.encode("ab"), rag.top_k, rag.max_graph_nodes],
    }


OUTSIDERS = [
    helpers,
    shapes,
    progress_told,
    odd_texts,
    states_followed,
    sources_kept,
    refused_graphs,
    used_directly,
]
