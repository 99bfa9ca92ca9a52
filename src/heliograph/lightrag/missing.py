"""Parts of LightRAG that this package lacks: modules, attributes, and write methods of its storages.

Importing such a module, or accessing such an attribute, raises an error that says what to use instead.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_PACKAGE = "heliograph.lightrag."
_OWN_FUNCTION = (
    "give LightRAG(llm_model_func=...) or EmbeddingFunc(func=...) an async function of your own that calls {service}"
)
_OPENAI = (
    "{service} speaks OpenAI's protocol: use openai_complete_if_cache and openai_embed of "
    "heliograph.lightrag.llm.openai with base_url={address!r}"
)
_ADVICE = {
    "llm.anthropic": _OPENAI.format(service="Claude", address="https://api.anthropic.com/v1/"),
    "llm.bedrock": _OWN_FUNCTION.format(service="Bedrock"),
    "llm.gemini": _OPENAI.format(service="Gemini", address="https://generativelanguage.googleapis.com/v1beta/openai/"),
    "llm.hf": _OWN_FUNCTION.format(service="the model of transformers, in a thread"),
    "llm.jina": _OWN_FUNCTION.format(service="Jina"),
    "llm.llama_index_impl": _OWN_FUNCTION.format(service="the model of LlamaIndex"),
    "llm.lmdeploy": _OPENAI.format(service="lmdeploy's server", address="http://127.0.0.1:23333/v1"),
    "llm.lollms": _OPENAI.format(service="LoLLMs", address="http://127.0.0.1:9600/v1"),
    "llm.nvidia_openai": _OPENAI.format(service="NVIDIA", address="https://integrate.api.nvidia.com/v1"),
    "llm.siliconcloud": _OPENAI.format(service="SiliconCloud", address="https://api.siliconflow.cn/v1"),
    "llm.voyageai": _OWN_FUNCTION.format(service="Voyage"),
    "llm.zhipu": _OPENAI.format(service="Zhipu", address="https://open.bigmodel.cn/api/paas/v4"),
    "api": "`heliograph serve` speaks LightRAG's routes; see docs/migrating-from-lightrag.md",
}
_STORES = "its stores are chosen by LightRAG(kv_storage=..., graph_storage=...) or by a URL; see docs/lightrag-api.md"


class MissingModules(MetaPathFinder):
    """Finds nothing; as the last finder, it raises an error that names what to import instead of LightRAG's module."""

    @classmethod
    def install(cls) -> None:
        """Append the finder to all others; a second call does nothing."""
        if not any(isinstance(finder, cls) for finder in sys.meta_path):
            sys.meta_path.append(cls())

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return None for modules outside of LightRAG; raise `ModuleNotFoundError` for its missing ones."""
        if not fullname.startswith(_PACKAGE):
            return None
        name = fullname.removeprefix(_PACKAGE)
        advice = _ADVICE.get(name) or _ADVICE.get(name.partition(".")[0])
        if advice is None:
            advice = _STORES if name.startswith("kg.") else "docs/lightrag-api.md lists what can be imported"
        raise ModuleNotFoundError(f"there is no {fullname}: {advice}", name=fullname)


_READ = "views hold nothing in memory; await get_all() of documents and chunks, or get_by_ids"
_WRITE = "views do not write; use {call} of LightRAG"
_DELETE = _WRITE.format(call="adelete_by_doc_id")
_EDIT = _WRITE.format(call="acreate_entity, aedit_entity, acreate_relation or aedit_relation")
_REMOVE = _WRITE.format(call="adelete_by_doc_id, adelete_by_entity or adelete_by_relation")
_INSERT = _WRITE.format(call="ainsert, ainsert_custom_chunks or ainsert_custom_kg")
_DROP = "views do not write; delete the documents with adelete_by_doc_id, or name another workspace"
_GRAPH = "`_graph` is a copy of the graph for networkx, and get_all_nodes and get_all_edges read it without that"
_DETAILS = "get_entity_info and get_relation_info of LightRAG tell one with include_vector_data=True; query finds some"
# Attributes that programs use of LightRAG's storages, by the kind of view, and what to use instead.
_INSTEAD = {
    **{kind: {"delete": _DELETE, "upsert": _INSERT} for kind in ("DocStatusView", "FullDocsView", "ChunkView")},
    "GraphView": {
        **dict.fromkeys(("upsert_node", "upsert_edge", "upsert_nodes_batch", "upsert_edges_batch"), _EDIT),
        **dict.fromkeys(("delete_node", "remove_nodes", "remove_edges"), _REMOVE),
        **dict.fromkeys(("get_graph", "_get_graph", "_driver"), _GRAPH),
    },
    "VectorView": {
        **dict.fromkeys(("delete", "delete_entity", "delete_entity_relation"), _REMOVE),
        **dict.fromkeys(("client_storage", "_client", "_get_client", "get_by_id", "get_by_ids"), _DETAILS),
        "upsert": _INSERT,
    },
    "LightRAG": {
        "apipeline_enqueue_error_documents": "a file that cannot be read fails by itself in insert_files of Heliograph",
        "role_llm_funcs": "get_llm_role_config describes the models, and aupdate_llm_role_config exchanges them",
        **dict.fromkeys(("_insert_done", "_query_done"), "nothing has to be written out after a call has returned"),
    },
}
_FOR_ALL = {
    **dict.fromkeys(("_data", "_storage"), _READ),
    "drop": _DROP,
    "global_config": "the fields of LightRAG are its configuration",
}


def missing_attribute(kind: str, name: str) -> str:
    """Return the message of an `AttributeError`: that `kind` has no `name`, and what to use instead."""
    advice = _INSTEAD.get(kind, {}).get(name) or _FOR_ALL.get(name) or "docs/lightrag-api.md lists what is there"
    return f"{kind} of heliograph.lightrag has no {name!r}: {advice}"
