"""Programs in the style of tutorials and blog posts: a chat, a graph by hand, models by role, tenants.

They import from the package named by `lib` and from nothing else but `fakes`; `programs.py` has what they share.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
from pathlib import Path

if __package__:
    from . import fakes
    from .programs import CUSTOM, FILES, data, edge, graph, node, parts, status
else:
    import fakes
    from programs import CUSTOM, FILES, data, edge, graph, node, parts, status

QUESTION = "Which leadership and measurement does Alice Moreau have with Heron?"


async def _outcome(call):
    """Return what a call gave, or the kind of exception it raised."""
    try:
        return await call()
    except Exception as error:
        return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")


async def chat_with_history(lib, folder):
    """A chat whose answers are streamed, with earlier turns, a prompt of the user's and a system prompt."""
    seen = []

    async def model(prompt, system_prompt=None, history_messages=None, **kwargs):
        if "stream" in kwargs:
            seen.append([prompt, history_messages, bool(kwargs["stream"]), "as a pirate" in (system_prompt or "")])
        return await fakes.model(prompt, system_prompt, None, **kwargs)

    rag = await lib.open(folder, llm_model_func=model)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    history, answers = [], []
    for question in ("Who built Heron?", "What funding does Kyoto give?", "Is there a leadership?"):
        for mode in ("mix", "naive", "bypass"):
            param = lib.QueryParam(
                mode=mode,
                stream=True,
                conversation_history=[*history],
                user_prompt="Answer as a pirate.",
                enable_rerank=False,
            )
            reply = await rag.aquery(question, param=param)
            answer = reply if isinstance(reply, str) else "".join([piece async for piece in reply])
            answers.append([mode, isinstance(reply, str), answer])
        history += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    told = await rag.aquery(
        "Who built Heron?", lib.QueryParam(mode="local", enable_rerank=False), system_prompt="Say so: {context_data}"
    )
    context = await rag.aquery("Who built Heron?", lib.QueryParam(mode="mix", only_need_context=True))
    prompt = await rag.aquery("Who built Heron?", lib.QueryParam(mode="mix", only_need_prompt=True))
    await rag.finalize_storages()
    return {
        "answers": answers,
        "seen": seen,
        "told": told,
        "context": [type(context).__name__, "Bob Tanaka" in context],
        "prompt": [type(prompt).__name__, "Who built Heron?" in prompt],
    }


async def graph_by_hand(lib, folder):
    """A graph of products: chunks in order, a missing end, an entity twice, then read, corrected and asked."""
    rag = await lib.open(folder)
    made = {
        "chunks": [
            {
                "content": "Orion ships with Lyra.",
                "source_id": "s1",
                "file_path": "kb/orion.md",
                "chunk_order_index": 0,
            },
            {
                "content": "Lyra needs Vega to run.",
                "source_id": "s2",
                "file_path": "kb/lyra.md",
                "chunk_order_index": 0,
            },
        ],
        "entities": [
            {"entity_name": "Orion", "entity_type": "product", "description": "Orion is a phone.", "source_id": "s1"},
            {"entity_name": "Orion", "entity_type": "product", "description": "Orion is a tablet.", "source_id": "s1"},
            {"entity_name": "Lyra", "entity_type": "software", "description": "Lyra is a system.", "source_id": "s2"},
            {"entity_name": "Stray", "description": "Nothing names it.", "source_id": "nowhere"},
        ],
        "relationships": [
            {
                "src_id": "Orion",
                "tgt_id": "Lyra",
                "description": "Orion ships Lyra.",
                "keywords": "ships, system",
                "weight": 1.5,
                "source_id": "s1",
            },
            {
                "src_id": "Lyra",
                "tgt_id": "Vega",
                "description": "Lyra needs Vega.",
                "keywords": "needs",
                "source_id": "s2",
            },
        ],
    }
    # Here what names no file has that of its chunk, and an end of a relation has the relation's chunk, too.
    files = {"s1": "orion.md", "s2": "lyra.md"}
    for item in (*made["entities"], *made["relationships"]):
        item["file_path"] = files.get(item["source_id"], "custom_kg")
    await rag.ainsert_custom_kg(made)
    whole = graph(await rag.get_knowledge_graph("*"))
    vega = await rag.get_entity_info("Vega", include_vector_data=True)
    pair = await rag.get_relation_info("Lyra", "Orion", include_vector_data=True)
    chunk = await rag.text_chunks.get_by_id("chunk-" + lib.module("utils").compute_mdhash_id("Orion ships with Lyra."))
    await rag.aedit_entity("Vega", {"entity_type": "service", "description": "Vega is a service."})
    found = await rag.aquery_data(
        "What ships?", lib.QueryParam(mode="local", ll_keywords=["Orion"], hl_keywords=["ships"], enable_rerank=False)
    )
    await rag.finalize_storages()
    for _, _, properties in whole["nodes"]:
        del properties["source_id"], properties["file_path"]
    return {
        "graph": whole,
        "vega": [sorted(vega), vega["graph_data"]["description"], vega["graph_data"]["entity_type"]],
        "pair": [sorted(pair), pair["src_entity"], pair["tgt_entity"], edge(pair["graph_data"])],
        "chunk": [chunk["content"], chunk["file_path"], chunk["chunk_order_index"]],
        "found": data(found),
    }


async def chunks_by_heading(lib, folder):
    """A chunking function by Markdown headings, with keys of its own, and a document that is inserted after another."""
    given = []

    def by_heading(tokenizer, content, split_by_character, split_by_character_only, overlap, size):
        given.append([split_by_character, split_by_character_only, overlap, size])
        parts_ = [part.strip() for part in content.split("\n# ") if part.strip()]
        return [
            {"tokens": len(tokenizer.encode(part)), "content": part, "chunk_order_index": index, "section": f"s{index}"}
            for index, part in enumerate(parts_)
        ]

    rag = await lib.open(folder, chunking_func=by_heading, chunk_token_size=500, chunk_overlap_token_size=20)
    text = "\n# ".join(fakes.TEXTS)
    await rag.ainsert(text, file_paths="sections.md", track_id="t", split_by_character="\n")
    (found,) = (await rag.aget_docs_by_track_id("t")).values()
    rows = await rag.text_chunks.get_by_ids([*found.chunks_list, "chunk-none"])
    hits = await rag.chunks_vdb.query("Bob Tanaka built the Heron sensor", top_k=1)
    await rag.finalize_storages()
    return {
        "given": given,
        "document": status(found),
        "rows": [row and [row["content"], row["tokens"], row["chunk_order_index"], row["full_doc_id"]] for row in rows],
        "hits": [[hit["content"], hit["full_doc_id"], hit["file_path"], "distance" in hit] for hit in hits],
    }


async def roles_that_change(lib, folder):
    """Models by role, with keywords of their own, one of them exchanged while the program runs."""
    seen = []

    def named(name):
        async def model(prompt, system_prompt=None, history_messages=None, **kwargs):
            seen.append([name, kwargs.get("temperature"), kwargs.get("response_format") is not None])
            return await fakes.model(prompt, system_prompt, history_messages, **kwargs)

        return model

    rag = await lib.open(
        folder,
        llm_model_func=named("base"),
        llm_model_kwargs={"temperature": 0.0},
        entity_extract_max_gleaning=0,
        role_llm_configs={
            "query": lib.RoleLLMConfig(func=named("query"), kwargs={"temperature": 0.7}, max_async=2, timeout=60),
            "extract": {"kwargs": {"temperature": 0.2}},
        },
    )
    await rag.ainsert(fakes.TEXTS[1], file_paths="a.md")
    await rag.aquery("Who built Heron?", lib.QueryParam(mode="hybrid", enable_rerank=False))
    before = rag.get_llm_role_config("query")
    await rag.aupdate_llm_role_config(
        "query", model_func=named("other"), model_kwargs={"temperature": 0.9}, max_async=3
    )
    after = rag.get_llm_role_config()["query"]
    await rag.aquery("Which construction has Heron?", lib.QueryParam(mode="hybrid", enable_rerank=False))
    wrong = await _outcome(lambda: rag.aupdate_llm_role_config("poet", max_async=1))
    await rag.finalize_storages()
    kept = ("max_async", "timeout", "has_model_kwargs")
    return {"seen": seen, "told": [[item[name] for name in kept] for item in (before, after)], "wrong": wrong}


async def delete_and_take_again(lib, folder):
    """Documents that share entities: one is deleted with its cache, taken again, and deleted twice."""
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, ids=["a", "b", "c"], file_paths=FILES)
    whole = graph(await rag.get_knowledge_graph("*"))
    gone = await rag.adelete_by_doc_id("b", delete_llm_cache=True)
    rest = graph(await rag.get_knowledge_graph("*"))
    left = await rag.aget_docs_by_ids(["a", "b", "c"])
    chunks = await rag.text_chunks.get_by_ids(["b-chunk-000", "c-chunk-000"])
    text = await rag.full_docs.get_by_id("b")
    await rag.ainsert(fakes.TEXTS[1], ids="b", file_paths=FILES[1])
    again = graph(await rag.get_knowledge_graph("*"))
    twice = [await rag.adelete_by_doc_id("b"), await rag.adelete_by_doc_id("b")]
    answer = await rag.aquery("Who built Heron?", lib.QueryParam(mode="naive", enable_rerank=False))
    await rag.finalize_storages()
    return {
        "gone": [gone.status, gone.doc_id, gone.status_code, gone.file_path],
        "rest": rest,
        "left": sorted(left),
        "chunks": [row and row["content"] for row in chunks],
        "text": text,
        "again": again == whole,
        "twice": [[item.status, item.status_code] for item in twice],
        "answer": answer,
    }


async def exports_of_all_formats(lib, folder):
    """The graph in every format, with and without vectors; also one without a relation, and an unknown format."""
    rag = await lib.open(folder, workspace="full")
    await rag.ainsert_custom_kg(CUSTOM)
    sizes = {}
    for format_, ending in (("csv", "csv"), ("excel", "xlsx"), ("md", "md"), ("txt", "txt")):
        for vectors in (False, True):
            path = Path(folder, f"graph-{vectors}.{ending}")
            await rag.aexport_data(str(path), file_format=format_, include_vector_data=vectors)
            if format_ != "excel":
                text = path.read_text("utf-8")
                sizes[path.name] = [
                    text.splitlines()[0],
                    sum(line.startswith(("#", "ENTIT", "RELATION")) for line in text.splitlines()),
                    *(text.count(word) for word in ("Nadia", "Solstice", "founding", "vector_data")),
                ]
            else:
                sizes[path.name] = path.read_bytes()[:2] == b"PK"
    wrong = await _outcome(lambda: rag.aexport_data(str(Path(folder, "graph.xml")), file_format="xml"))
    await rag.finalize_storages()
    return {"sizes": sizes, "wrong": wrong}


async def whole_graph(lib, folder):
    """The graph to draw: all of it, the best connected, around one entity, and names to choose from."""
    rag = await lib.open(folder, max_graph_nodes=6)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    stored = rag.chunk_entity_relation_graph
    seen = {
        "all": graph(await rag.get_knowledge_graph("*")),
        "two": graph(await rag.get_knowledge_graph("*", max_nodes=2)),
        "near": graph(await rag.get_knowledge_graph("Meridian", max_depth=1)),
        "far": graph(await rag.get_knowledge_graph("Meridian", max_depth=3, max_nodes=3)),
        "none": graph(await rag.get_knowledge_graph("Atlantis", max_depth=2)),
        "alone": graph(await rag.get_knowledge_graph("Heron", max_depth=0)),
        "labels": await stored.get_all_labels(),
        "popular": (await stored.get_popular_labels(limit=2))[:1],
        "search": await stored.search_labels("mer", limit=5),
        "has": [
            await stored.has_node("Heron"),
            await stored.has_node("Nobody"),
            await stored.has_edge("Kyoto", "Heron"),
        ],
        "degree": [await stored.node_degree("Heron"), await stored.edge_degree("Kyoto", "Heron")],
        "edges": sorted(map(sorted, await stored.get_node_edges("Kyoto"))),
        "node": node(await stored.get_node("Kyoto")),
        "nodes": sorted(await stored.get_nodes_batch(["Kyoto", "Heron", "Nobody"])),
        "edge": edge(await stored.get_edge("Heron", "Kyoto")),
        "missing": [await stored.get_node("Nobody"), await stored.get_edge("Kyoto", "Alice Moreau")],
        "count": [len(await stored.get_all_nodes()), len(await stored.get_all_edges())],
    }
    await rag.finalize_storages()
    return seen


async def tenants_at_once(lib, folder):
    """Two workspaces, each taking several documents and answering several questions at the same time."""
    one, two = [await lib.open(folder, workspace=name) for name in ("acme", "globex")]
    await asyncio.gather(
        one.ainsert(fakes.TEXTS[0], file_paths="one.md", track_id="t0"),
        two.ainsert(fakes.TEXTS[1], file_paths="two.md", track_id="t1"),
    )
    await asyncio.gather(
        *(one.ainsert(text, file_paths=f"more-{index}.md") for index, text in enumerate(fakes.TEXTS[1:]))
    )
    param = lib.QueryParam(mode="mix", enable_rerank=False)
    answers = await asyncio.gather(
        *(rag.aquery(question, param) for rag in (one, two) for question in (QUESTION, "What funding does Kyoto give?"))
    )
    found = await asyncio.gather(*(rag.aquery_data(QUESTION, lib.QueryParam(mode="local")) for rag in (one, two)))
    counts = [await rag.get_processing_status() for rag in (one, two)]
    labels = [await rag.get_graph_labels() for rag in (one, two)]
    for rag in (one, two):
        await rag.finalize_storages()
    return {
        "answers": answers,
        "found": [sorted(item["entity_name"] for item in result["data"]["entities"]) for result in found],
        "counts": [{name: count for name, count in item.items() if count} for item in counts],
        "labels": labels,
    }


async def nothing_there(lib, folder):
    """What an empty workspace answers, and what is asked of things that do not exist."""
    rag = await lib.open(folder)
    seen = {}
    for mode in ("local", "global", "hybrid", "mix", "naive"):
        param = lib.QueryParam(mode=mode, enable_rerank=False)
        told = await rag.aquery_llm(QUESTION, param)
        seen[mode] = [
            await rag.aquery(QUESTION, param),
            data(await rag.aquery_data(QUESTION, param)),
            [told["status"], told["llm_response"]],
        ]
    seen["graph"] = graph(await rag.get_knowledge_graph("*"))
    seen["labels"] = await rag.get_graph_labels()
    info = await rag.get_entity_info("Nobody")
    seen["info"] = [info["entity_name"], info["graph_data"]]
    pair = await rag.get_relation_info("Nobody", "Nothing")
    seen["pair"] = [pair["src_entity"], pair["tgt_entity"], pair["graph_data"]]
    seen["documents"] = [await rag.aget_docs_by_ids(["x"]), await rag.aget_docs_by_track_id("x")]
    for name, call in {
        "no text": lambda: rag.ainsert([]),
        "edit": lambda: rag.aedit_entity("Nobody", {"description": "d"}),
        "relate": lambda: rag.acreate_relation("Nobody", "Nothing", {"description": "d"}),
        "merge": lambda: rag.amerge_entities(["Nobody"], "Somebody"),
        "long": lambda: rag.aquery("x" * 3000, lib.QueryParam(mode="naive")),
    }.items():
        told = await _outcome(call)
        seen[name] = told if not isinstance(told, str) or not told.startswith("insert_") else "a track id"
    seen["states"] = await rag.get_processing_status()
    await rag.finalize_storages()
    return seen


async def asked_twice(lib, folder):
    """How often a model is called when a question is asked again, after a change, and after the cache is cleared."""
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    counts = []

    async def ask(knowledge, **fields):
        before = len(fakes.CALLS)
        answer = await knowledge.aquery(
            QUESTION, lib.QueryParam(**({"mode": "hybrid", "enable_rerank": False} | fields))
        )
        counts.append([len(fakes.CALLS) - before, answer])

    await ask(rag)
    await ask(rag)
    await ask(rag, conversation_history=[{"role": "user", "content": "before"}])
    await rag.aclear_cache()
    await ask(rag)
    await rag.finalize_storages()
    off = await lib.open(folder, workspace="off", enable_llm_cache=False, enable_llm_cache_for_entity_extract=False)
    await off.ainsert(fakes.TEXTS[0], file_paths="a.md")
    await ask(off)
    await ask(off)
    await off.finalize_storages()
    return counts


async def few_hits(lib, folder):
    """Few hits, and keywords that are given: what is found, by mode."""
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, file_paths=FILES)
    seen = []
    for fields in (
        {"mode": "local", "top_k": 1},
        {"mode": "global", "top_k": 1},
        {"mode": "naive", "chunk_top_k": 1},
        {"mode": "mix", "top_k": 3, "chunk_top_k": 2},
        {"mode": "hybrid", "hl_keywords": ["funding"], "ll_keywords": []},
        {"mode": "local", "hl_keywords": [], "ll_keywords": ["Meridian"], "include_references": True},
    ):
        found = await rag.aquery_data(QUESTION, lib.QueryParam(enable_rerank=False, **fields))
        seen.append([fields, data(found)])
    await rag.finalize_storages()
    return seen


async def storages_read(lib, folder):
    """Programs that read LightRAG's storages themselves."""
    rag = await lib.open(folder)
    await rag.ainsert(fakes.TEXTS, ids=["a", "b", "c"], file_paths=FILES)
    entities = await rag.entities_vdb.query("Heron sensor", top_k=3)
    relations = await rag.relationships_vdb.query("construction of Heron", top_k=2)
    seen = {
        "entities": [sorted(set(hit) & {"entity_name", "content", "source_id", "file_path"}) for hit in entities],
        "names": sorted(hit["entity_name"] for hit in entities[:1]),
        "relations": [sorted((hit["src_id"], hit["tgt_id"])) for hit in relations[:1]],
        "full_entities": sorted((await rag.full_entities.get_by_id("b"))["entity_names"]),
        "full_relations": sorted(map(sorted, (await rag.full_relations.get_by_id("b"))["relation_pairs"])),
        "none": [await rag.full_entities.get_by_id("x"), await rag.full_relations.get_by_id("x")],
        "entity_chunks": sorted((await rag.entity_chunks.get_by_id("Heron"))["chunk_ids"]),
        "relation_chunks": (await rag.relation_chunks.get_by_id("Heron<SEP>Kyoto"))["chunk_ids"],
        "missing": sorted(await rag.text_chunks.filter_keys({"a-chunk-000", "z-chunk-000"})),
        "new": sorted(await rag.doc_status.filter_keys({"a", "z"})),
        "empty": [await rag.full_docs.is_empty(), await rag.doc_status.is_empty()],
        "counts": (await rag.doc_status.get_all_status_counts())["all"],
        "by_path": (await rag.doc_status.get_doc_by_file_path("heron.md") or {}).get("status"),
        "source": parts((await rag.get_entity_info("Heron"))["source_id"]),
    }
    await rag.finalize_storages()
    return seen


async def model_back_again(lib, folder):
    """A model that is down while documents come in, and is back later."""
    is_down = [True]

    async def model(prompt, system_prompt=None, history_messages=None, **kwargs):
        if is_down[0]:
            raise ConnectionError("no route")
        return await fakes.model(prompt, system_prompt, history_messages, **kwargs)

    rag = await lib.open(folder, llm_model_func=model)
    await rag.ainsert(fakes.TEXTS[0], ids="first", file_paths="a.md")
    down = status((await rag.aget_docs_by_ids("first"))["first"])
    # LightRAG tells of the chunks that it could not read; here there are none.
    del down["chunks_count"], down["chunks_list"]
    labels = await rag.get_graph_labels()
    is_down[0] = False
    await rag.ainsert(fakes.TEXTS[1], ids="second", file_paths="b.md")
    up = {id_: status(item)["status"] for id_, item in (await rag.aget_docs_by_ids(["first", "second"])).items()}
    again = await rag.apipeline_enqueue_documents(fakes.TEXTS[0], ids="first", file_paths="a.md")
    is_down[0] = True
    told = await rag.aquery_llm("Who built Heron?", lib.QueryParam(mode="naive", enable_rerank=False))
    await rag.finalize_storages()
    return {
        "down": down,
        "labels": labels,
        "up": up,
        "again": again,
        "told": [told["status"], told["data"], told["llm_response"]],
    }


TUTORIALS = [
    chat_with_history,
    graph_by_hand,
    chunks_by_heading,
    roles_that_change,
    delete_and_take_again,
    exports_of_all_formats,
    whole_graph,
    tenants_at_once,
    nothing_there,
    asked_twice,
    few_hits,
    storages_read,
    model_back_again,
]
