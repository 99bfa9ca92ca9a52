"""Model functions by LightRAG's names against a service on loopback, fields that have no effect, tokens."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from inspect import signature
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import openpyxl
import pytest

from heliograph.engine import AsyncHeliograph
from heliograph.ingest.models import NewDocument
from heliograph.lightrag import LightRAG, QueryParam, RoleLLMConfig
from heliograph.lightrag import utils as lightrag_utils
from heliograph.lightrag.base import DocStatus
from heliograph.lightrag.llm.azure_openai import azure_openai_complete, azure_openai_embed
from heliograph.lightrag.llm.ollama import ollama_embed, ollama_model_complete
from heliograph.lightrag.llm.openai import openai_complete, openai_complete_if_cache, openai_embed
from heliograph.lightrag.operate import chunking_by_token_size
from heliograph.lightrag.prompt import PROMPTS
from heliograph.lightrag.rerank import cohere_rerank, generic_rerank_api
from heliograph.lightrag.utils import EmbeddingFunc, TiktokenTokenizer, TokenTracker, wrap_embedding_func_with_attrs
from heliograph.text.tokens import decode, encode


class _Service(BaseHTTPRequestHandler):
    asked: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        replies: dict[str, Any] = {
            "/v1/chat/completions": {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [
                    {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
                ],
                "usage": usage,
            },
            "/v1/embeddings": {
                "object": "list",
                "model": "m",
                "data": [
                    {"object": "embedding", "index": index, "embedding": [1.0, float(index)]}
                    for index, _ in enumerate(body.get("input", []))
                ],
                "usage": usage,
            },
            "/api/chat": {"message": {"content": "hello"}, "done": True, "prompt_eval_count": 3, "eval_count": 2},
            "/api/embed": {"embeddings": [[1.0, 2.0] for _ in body.get("input", [])], "prompt_eval_count": 3},
            "/v2/rerank": {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.2}]},
            "/text-rerank": {"output": {"results": [{"index": 0, "relevance_score": 0.7}]}},
        }
        if body.get("stream"):
            self._stream()
            return
        # Azure has a path for each deployment.
        path = re.sub(r"^/openai/deployments/\w+|\?.*", lambda found: "" if found[0][0] == "?" else "/v1", self.path)
        data = json.dumps(replies[path]).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self) -> None:
        self.send_response(200)
        self.end_headers()
        for piece in ("hel", "lo"):
            if self.path == "/api/chat":
                line = json.dumps({"message": {"content": piece}, "done": False}) + "\n"
            else:
                choice = {"index": 0, "delta": {"content": piece}}
                told = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
                line = f"data: {json.dumps(told)}\n\n"
            self.wfile.write(line.encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def service() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    asked: list[dict[str, Any]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Service", (_Service,), {"asked": asked}))
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    thread.join()
    server.server_close()


async def _read(reply: str | AsyncIterator[str]) -> str:
    return reply if isinstance(reply, str) else "".join([piece async for piece in reply])


async def test_openai_functions_ask_as_they_are_told(service: tuple[str, list[dict[str, Any]]]) -> None:
    url, asked = service
    tracker = TokenTracker()
    kept = SimpleNamespace(global_config={"llm_model_name": "own"})
    given: dict[str, Any] = {"base_url": f"{url}/v1", "api_key": "secret", "hashing_kv": kept}
    history = [{"role": "user", "content": "before"}, {"role": "assistant", "content": "then"}]
    reply = await openai_complete_if_cache("m", "now", "be brief", history, token_tracker=tracker, **given)
    assert await _read(reply) == "hello"
    assert tracker.get_usage()["total_tokens"] == 5
    assert asked[0]["key"] == "Bearer secret"
    assert [item["content"] for item in asked[0]["messages"]] == ["be brief", "before", "then", "now"]
    assert "hashing_kv" not in asked[0]
    assert await _read(await openai_complete("now", stream=True, temperature=0.5, **given)) == "hello"
    assert (asked[1]["model"], asked[1]["temperature"]) == ("own", 0.5)
    vectors = await openai_embed.func(
        ["one", "two"], model="m", base_url=f"{url}/v1", api_key="k", document_prefix="p "
    )
    assert vectors.tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert asked[2]["input"] == ["p one", "p two"]


async def test_azure_functions_ask_the_deployment_that_the_environment_names(
    service: tuple[str, list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, asked = service
    for name, value in {
        "AZURE_OPENAI_ENDPOINT": url,
        "AZURE_OPENAI_DEPLOYMENT": "talk",
        "AZURE_OPENAI_API_KEY": "secret",
        "AZURE_EMBEDDING_ENDPOINT": url,
        "AZURE_EMBEDDING_DEPLOYMENT": "place",
        "AZURE_EMBEDDING_API_VERSION": "2025-01-01",
    }.items():
        monkeypatch.setenv(name, value)
    assert await _read(await azure_openai_complete("now", "be brief")) == "hello"
    assert (await azure_openai_embed.func(["one"])).tolist() == [[1.0, 0.0]]
    assert [item["path"] for item in asked] == [
        "/openai/deployments/talk/chat/completions?api-version=2024-08-01-preview",
        "/openai/deployments/place/embeddings?api-version=2025-01-01",
    ]
    assert asked[0]["model"] == "talk"


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("llm.zhipu", "open.bigmodel.cn"),
        ("llm.hf", "async function of your own"),
        ("kg.postgres_impl", "kv_storage"),
        ("api.lightrag_server", "heliograph serve"),
        ("tools.lightrag_visualizer", "lightrag-api.md"),
    ],
)
def test_module_that_is_not_here_says_what_to_use(name: str, advice: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=re.escape(advice)):
        import_module(f"heliograph.lightrag.{name}")


async def test_ollama_functions_ask_as_they_are_told(service: tuple[str, list[dict[str, Any]]]) -> None:
    url, asked = service
    given: dict[str, Any] = {"host": url, "hashing_kv": SimpleNamespace(global_config={"llm_model_name": "qwen"})}
    reply = await ollama_model_complete("now", "be brief", response_format={"type": "json_object"}, **given)
    assert (await _read(reply), asked[0]["format"], asked[0]["model"]) == ("hello", "json", "qwen")
    assert await _read(await ollama_model_complete("now", stream=True, options={"num_ctx": 9}, **given)) == "hello"
    assert asked[1]["options"] == {"num_ctx": 9}
    vectors = await ollama_embed.func(["one"], embed_model="m", host=url, context="query", query_prefix="q: ")
    assert (vectors.tolist(), asked[2]["input"]) == ([[1.0, 2.0]], ["q: one"])


async def test_rerank_functions_return_indexes_and_scores(service: tuple[str, list[dict[str, Any]]]) -> None:
    url, asked = service
    found = await cohere_rerank("q", ["a", "b"], top_n=1, api_key="k", base_url=f"{url}/v2/rerank")
    assert found == [{"index": 1, "relevance_score": 0.9}]
    assert (asked[0]["query"], asked[0]["documents"]) == ("q", ["a", "b"])
    form = {"request_format": "aliyun", "response_format": "aliyun", "enable_chunking": True}
    found = await generic_rerank_api("q", ["a", "b"], "m", f"{url}/text-rerank", "k", 1, **form)
    assert found == [{"index": 0, "relevance_score": 0.7}]
    assert asked[1]["input"] == {"query": "q", "documents": ["a", "b"]}
    with pytest.raises(ValueError, match="base_url"):
        await generic_rerank_api("q", ["a"], "m", "", None)


async def test_embedding_function_is_checked_and_unwrapped() -> None:
    async def embed(texts: list[str], max_token_size: int = 0) -> Any:
        return np.ones((len(texts) + (max_token_size == 7), 3))

    whole = EmbeddingFunc(embedding_dim=3, func=EmbeddingFunc(embedding_dim=9, func=embed))
    assert (await whole(["one", "two"], context="query")).shape == (2, 3)
    with pytest.raises(ValueError, match="2 vectors for 1 texts"):
        await EmbeddingFunc(embedding_dim=3, func=embed, max_token_size=7)(["one"])
    with pytest.raises(ValueError, match="length 5"):
        await wrap_embedding_func_with_attrs(embedding_dim=5)(embed)(["one"])


def _rag(folder: Path, **fields: Any) -> LightRAG:
    async def embed(texts: list[str]) -> Any:
        return np.ones((len(texts), 3))

    async def model(_prompt: str, **_given: Any) -> str:
        return "<|COMPLETE|>"

    given: dict[str, Any] = {
        "working_dir": str(folder),
        "llm_model_func": model,
        "embedding_func": EmbeddingFunc(embedding_dim=3, func=embed),
    }
    return LightRAG(**(given | fields))


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"llm_model_func": None}, "llm_model_func"),
        ({"embedding_func": None}, "embedding_func"),
        ({"top_k": 0}, "top_k"),
        ({"role_llm_configs": {"poet": RoleLLMConfig()}}, "poet"),
        ({"graph_storage": "Neo4JStorage"}, "NEO4J_"),
    ],
)
def test_field_that_cannot_be_is_refused(tmp_path: Path, fields: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        _rag(tmp_path, **fields)


def test_field_without_effect_warns_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lightrag_utils, "_told", set[str]())
    with pytest.warns(UserWarning, match="Milvus"):
        _rag(tmp_path, vector_storage="MilvusVectorDBStorage")
    _rag(tmp_path, vector_storage="MilvusVectorDBStorage")


def test_stores_and_defaults_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"POSTGRES_USER": "ann", "POSTGRES_PASSWORD": "p/w", "POSTGRES_DATABASE": "kb", "TOP_K": "7"}
    told |= {"QDRANT_URL": "http://q.example:6333", "WORKSPACE": "own", "CHUNK_SIZE": "300"}
    told |= {"MAX_ASYNC_LLM": "6", "USER_PROMPT_PREFIX": "Be short. "}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    rag = _rag(tmp_path, kv_storage="PGKVStorage", vector_storage="QdrantVectorDBStorage")
    settings = rag._settings  # pyright: ignore[reportPrivateUsage]
    assert settings.store.url == "postgresql://ann:p%2Fw@localhost:5432/kb"
    assert settings.store.vectors_url == "qdrant://q.example:6333"
    assert (settings.store.workspace, settings.query.top_k) == ("own", 7)
    assert (settings.rerank.max_concurrency, settings.query.user_prompt_prefix) == (6, "Be short. ")


async def test_role_has_a_limit_of_time_and_a_builder(tmp_path: Path) -> None:
    async def slow(_prompt: str, **_given: Any) -> str:
        await asyncio.Event().wait()
        return ""

    rag = _rag(tmp_path, role_llm_configs={"query": RoleLLMConfig(func=slow, metadata={"api_key": "s"})})
    rag.update_llm_role_config("query", timeout=0.01)
    told = await rag.aquery_llm("Is anyone there?", QueryParam(mode="bypass"))
    assert (told["status"], "0.01 s" in told["message"]) == ("failure", True)
    assert rag.get_llm_role_config("query")["metadata"] == {}

    async def quick(_prompt: str, **given: Any) -> str:
        return f"hello from {given['place']}"

    with pytest.raises(ValueError, match="builder"):
        rag.update_llm_role_config("query", model="other")
    rag.register_role_llm_builder(lambda _role, metadata: (quick, {"place": metadata["model"]}))
    rag.update_llm_role_config("query", model="other")
    assert await rag.aquery("Is anyone there?", QueryParam(mode="bypass")) == "hello from other"
    assert rag.get_llm_role_config()["query"]["model"] == "other"
    with pytest.raises(TypeError, match="cannot be called"):
        rag.update_llm_role_config("query", model_func="no function")
    await rag.finalize_storages()


async def test_thread_beside_a_running_loop_calls_what_is_not_async(tmp_path: Path) -> None:
    rag = _rag(tmp_path)
    await rag.initialize_storages()
    with pytest.raises(RuntimeError, match=re.escape("await ainsert(...)")):
        rag.insert("Ada met Babbage.")
    track = await asyncio.to_thread(rag.insert, "Ada met Babbage.")
    assert await rag.aget_docs_by_track_id(track)
    assert await asyncio.to_thread(rag.query, "Who met Babbage?", QueryParam(mode="naive"))
    await rag.finalize_storages()


async def test_storage_can_be_opened_written_out_and_closed_by_hand(tmp_path: Path) -> None:
    rag = _rag(tmp_path)
    await rag.ainsert("Ada met Babbage.", ids="one")
    storages: list[Any] = [rag.llm_response_cache, rag.full_docs, rag.doc_status, rag.text_chunks]
    storages += [rag.full_entities, rag.entity_chunks, rag.chunk_entity_relation_graph, rag.chunks_vdb]
    for storage in storages:
        await storage.initialize()
        await storage.index_done_callback()
        await storage.finalize()
    assert (await rag.full_docs.get_by_id("one") or {})["content"] == "Ada met Babbage."
    await rag.finalize_storages()


async def test_logger_tells_what_was_taken_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "lightrag")
    rag = _rag(tmp_path)
    await rag.ainsert(["Ada met Babbage.", "Babbage built an engine."])
    assert "documents processed: 2, failed: 0" in caplog.messages
    await rag.finalize_storages()


async def test_deletion_says_that_a_document_was_handed_over_anew_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rag = _rag(tmp_path)
    await rag.ainsert("Ada met Babbage.", ids="one")
    look = AsyncHeliograph.document

    async def look_early(kb: AsyncHeliograph, id_: str) -> Any:
        found = await look(kb, id_)
        await kb.insert(NewDocument("Ada wrote a program.", id="one"))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(AsyncHeliograph, "document", look_early)
        told = await rag.adelete_by_doc_id("one")
    assert (told.status, told.status_code) == ("not_allowed", 403)
    assert (await rag.adelete_by_doc_id("one")).status == "success"
    await rag.finalize_storages()


def test_methods_that_are_not_async_keep_their_signatures() -> None:
    for name in ("insert", "query", "export_data", "merge_entities", "delete_by_doc_id"):
        method = getattr(LightRAG, name)
        assert (method.__name__, signature(method)) == (name, signature(getattr(LightRAG, f"a{name}")))


def test_prompts_warn_when_they_are_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lightrag_utils, "_told", set[str]())
    assert PROMPTS["fail_response"].endswith("[no-context]")
    with pytest.raises(KeyError, match="its own"):
        PROMPTS["rag_response"]
    with pytest.warns(UserWarning, match="no effect"):
        PROMPTS["rag_response"] = "Answer."


async def test_programs_for_older_versions_may_name_what_was_retired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lightrag_utils, "_told", set[str]())
    with pytest.warns(UserWarning, match=r"QueryParam\(history_turns=") as told:
        param = QueryParam(mode="naive", history_turns=3, max_token_for_text_unit=None)  # type: ignore[call-arg]
    assert (len(told), param) == (1, QueryParam(mode="naive"))
    assert "history_turns" not in signature(QueryParam).parameters
    with pytest.raises(TypeError, match="no_such_field"):
        QueryParam(no_such_field=1)  # type: ignore[call-arg]
    with pytest.warns(UserWarning, match=r"LightRAG\(llm_model_max_token_size="):
        rag = _rag(tmp_path, llm_model_max_token_size=32768)
    await rag.ainsert("Ada met Babbage.", ids="one")
    assert {id_: item.status for id_, item in (await rag.get_docs_by_status(DocStatus.PROCESSED)).items()} == {
        "one": DocStatus.PROCESSED
    }
    assert await rag.get_docs_by_status(DocStatus.FAILED) == {}
    await rag.finalize_storages()


def _talking(reply: str, asked: list[str]) -> Any:
    """Return a chat function that finds two names, and keywords for a question, and answers with `reply`."""

    async def model(prompt: str, **given: Any) -> str:
        asked.append(prompt)
        if given.get("response_format"):
            return json.dumps({"high_level_keywords": ["work"], "low_level_keywords": ["Ada"]})
        if "stream" in given:
            return reply
        return (
            "entity<|#|>Ada<|#|>person<|#|>Ada counts.\nentity<|#|>Babbage<|#|>person<|#|>Babbage builds.\n"
            "relation<|#|>Ada<|#|>Babbage<|#|>work<|#|>Ada met Babbage.\n<|COMPLETE|>"
        )

    return model


async def test_question_of_an_older_version_names_its_documents_and_its_function(tmp_path: Path) -> None:
    asked: list[str] = []
    own: list[str] = []
    rag = _rag(tmp_path, llm_model_func=_talking("all", asked))
    await rag.ainsert(["Ada met Babbage.", "Ada wrote to Babbage."], ids=["one", "two"], file_paths=["1.md", "2.md"])
    asked.clear()
    param = QueryParam(ids=["two"], model_func=_talking("own", own))
    found = await rag.aquery_data("Who met Babbage?", param)
    assert found["data"]["references"] == [{"reference_id": "1", "file_path": "2.md"}]
    assert {item["source_id"] for item in found["data"]["entities"]} == {"two-chunk-000"}
    assert await rag.aquery("Who met Babbage?", param) == "own"
    assert (asked, bool(own)) == ([], True)
    param.ids, param.model_func = [], None
    assert len((await rag.aquery_data("Who met Babbage?", param))["data"]["references"]) == 2
    assert await rag.aquery("Who met Babbage?", replace(param, mode="naive")) == "all"
    answer = await rag.aquery_with_separate_keyword_extraction("Who met Babbage?", "In one word.")
    assert answer == "all"
    await rag.finalize_storages()


async def test_a_question_may_come_with_an_object_of_the_programs_own(tmp_path: Path) -> None:
    rag = _rag(tmp_path, llm_model_func=_talking("all", []))
    await rag.ainsert("Ada met Babbage.", ids="one", file_paths="1.md")
    # A program's own object, with other values where LightRAG only asks whether a field holds.
    own: Any = SimpleNamespace(**asdict(QueryParam()) | {"only_need_context": None, "enable_rerank": 1})
    assert await rag.aquery("Who met Babbage?", own) == "all"
    await rag.finalize_storages()


async def test_graph_is_copied_for_networkx_while_the_loop_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes: dict[str, Any] = {}
    edges: list[tuple[str, str, str]] = []

    class Graph:
        def add_node(self, name: str, **given: Any) -> None:
            nodes[name] = given["entity_type"]

        def add_edge(self, source: str, target: str, **given: Any) -> None:
            edges.append((*sorted((source, target)), given["keywords"]))

    monkeypatch.setitem(sys.modules, "networkx", SimpleNamespace(Graph=Graph, freeze=lambda graph: graph))
    rag = _rag(tmp_path, llm_model_func=_talking("", []))
    await rag.ainsert("Ada met Babbage.", ids="one")
    assert isinstance(rag.chunk_entity_relation_graph._graph, Graph)
    assert (nodes, edges) == ({"Ada": "person", "Babbage": "person"}, [("Ada", "Babbage", "work")])
    await rag.finalize_storages()


async def test_all_rows_of_a_storage_are_read_and_what_is_not_there_says_what_to_use(tmp_path: Path) -> None:
    rag = _rag(tmp_path)
    await rag.ainsert(["Ada met Babbage.", "Babbage built engines."], ids=["one", "two"])
    assert {id_: row["content"] for id_, row in (await rag.text_chunks.get_all()).items()} == {
        "one-chunk-000": "Ada met Babbage.",
        "two-chunk-000": "Babbage built engines.",
    }
    assert [row["content"] for row in (await rag.full_docs.get_all()).values()] == [
        "Ada met Babbage.",
        "Babbage built engines.",
    ]
    assert {row["status"] for row in (await rag.doc_status.get_all()).values()} == {"processed"}
    for holder, name, advice in (
        (rag.text_chunks, "_data", r"get_all\(\)"),
        (rag.entities_vdb, "client_storage", "get_entity_info"),
        (rag.chunk_entity_relation_graph, "upsert_node", "acreate_entity"),
        (rag.doc_status, "drop", "adelete_by_doc_id"),
        (rag, "role_llm_funcs", "aupdate_llm_role_config"),
        (rag, "no_such_thing", "docs/lightrag-api.md"),
    ):
        with pytest.raises(AttributeError, match=advice):
            getattr(holder, name)
    await rag.finalize_storages()


async def test_windows_of_tokens_that_cut_characters_are_found_in_the_text(tmp_path: Path) -> None:
    rag = _rag(tmp_path, chunk_token_size=7, chunk_overlap_token_size=2)
    text = "漢字🙂𠮷野家🧪 und Ωmega " * 20
    await rag.ainsert(text, ids="one")
    found = (await rag.aget_docs_by_ids("one"))["one"]
    assert (found["status"], found["chunks_count"] > 20) == ("processed", True)
    await rag.finalize_storages()


async def test_chunking_function_may_be_async_and_must_not_write(tmp_path: Path) -> None:
    async def cut(_tokenizer: Any, content: str, *_: Any) -> list[dict[str, Any]]:
        await asyncio.sleep(0)
        return [{"content": part, "chunk_order_index": index} for index, part in enumerate(content.split("|"))]

    async def write(*_: Any) -> list[dict[str, Any]]:
        return [{"content": "something else"}]

    rag = _rag(tmp_path, chunking_func=cut)
    await rag.ainsert("one|two", ids="a")
    assert (await rag.aget_docs_by_ids("a"))["a"]["chunks_count"] == 2
    await rag.finalize_storages()
    rag = _rag(tmp_path / "other", chunking_func=write)
    await rag.ainsert("one", ids="a")
    assert "something else" in (await rag.aget_docs_by_ids("a"))["a"]["error_msg"]
    await rag.finalize_storages()


def test_tokens_come_back_as_text() -> None:
    text = "漢字🙂𠮷 plain"
    tokens = encode(text)
    assert decode(tokens) == text
    assert all(isinstance(decode(tokens[:end]), str) for end in range(len(tokens)))
    chunks = chunking_by_token_size(TiktokenTokenizer(), "a b c d e f", None, False, 1, 3)
    assert [chunk["content"] for chunk in chunks] == ["a b c", "c d e", "e f"]


async def test_origin_can_be_edited_and_stays_on_the_graph(tmp_path: Path) -> None:
    rag = _rag(tmp_path)
    for name in ("One", "Two"):
        await rag.acreate_entity(name, {"description": f"{name} is a number."})
    await rag.acreate_relation("One", "Two", {"description": "One comes before Two.", "keywords": "order"})
    edited = await rag.aedit_entity("One", {"source_id": "crm-1", "file_path": "crm.csv"})
    assert (edited["source_id"], edited["graph_data"]["file_path"]) == ("crm-1", "crm.csv")
    await rag.aedit_relation("Two", "One", {"source_id": "crm-2", "weight": 2.0})
    graph = await rag.get_knowledge_graph("One")
    assert [edge.properties["source_id"] for edge in graph.edges] == ["crm-2"]
    assert {node.id: node.properties["source_id"] for node in graph.nodes} == {"One": "crm-1", "Two": "manual_creation"}
    await rag.finalize_storages()


async def test_graph_export_is_read_by_others_and_replaces_what_is_there(tmp_path: Path) -> None:
    rag = _rag(tmp_path)
    await rag.acreate_entity("Ada", {"entity_type": "person", "description": "Ada wrote notes."})
    await rag.acreate_entity("Babbage", {"entity_type": "person", "description": "Babbage built an engine."})
    await rag.acreate_relation("Ada", "Babbage", {"description": "Ada met Babbage.", "keywords": "friendship"})
    path = tmp_path / "graph.graphml"
    path.write_text("an earlier one")
    await rag.aexport_data(str(path), file_format="graphml")
    graph = ElementTree.parse(path).getroot().find("{*}graph")
    assert graph is not None
    assert {node.get("id") for node in graph.iterfind("{*}node")} == {"Ada", "Babbage"}
    edge = graph.find("{*}edge")
    assert edge is not None
    assert {edge.get("source"), edge.get("target")} == {"Ada", "Babbage"}
    assert "Ada met Babbage." in [data.text for data in edge.iterfind("{*}data")]
    await rag.finalize_storages()


async def test_excel_export_is_read_by_others(tmp_path: Path) -> None:
    rag = _rag(tmp_path / "kb")
    for name in ("One", "Two & <three>"):
        await rag.acreate_entity(name, {"description": f"{name} is a number."})
    await rag.acreate_relation("One", "Two & <three>", {"description": "One comes first.", "keywords": "order"})
    await rag.aexport_data(str(tmp_path / "graph.xlsx"), "excel", include_vector_data=True)
    book = openpyxl.load_workbook(tmp_path / "graph.xlsx")
    assert book.sheetnames == ["Entities", "Relations", "Relationships"]
    rows = list(book["Entities"].values)
    assert rows[0] == ("entity_name", "source_id", "graph_data", "vector_data")
    assert sorted(str(row[0]) for row in rows[1:]) == ["One", "Two & <three>"]
    assert len(list(book["Relations"].values)) == 3
    await rag.finalize_storages()
