"""Modules that LightRAG has and this package has not: importing one says what to use in its place."""

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
        """Add the finder behind all others; a second call does nothing."""
        if not any(isinstance(finder, cls) for finder in sys.meta_path):
            sys.meta_path.append(cls())

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,  # noqa: ARG002
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return None for modules that are none of LightRAG's; raise `ModuleNotFoundError` for its others."""
        if not fullname.startswith(_PACKAGE):
            return None
        name = fullname.removeprefix(_PACKAGE)
        advice = _ADVICE.get(name) or _ADVICE.get(name.partition(".")[0])
        if advice is None:
            advice = _STORES if name.startswith("kg.") else "docs/lightrag-api.md lists what can be imported"
        raise ModuleNotFoundError(f"there is no {fullname}: {advice}", name=fullname)
