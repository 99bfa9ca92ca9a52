"""LightRAG's Python API on our engine: programs that were written for LightRAG 1.5.7 run after changing an import.

    from heliograph.lightrag import LightRAG, QueryParam
    from heliograph.lightrag.llm.openai import gpt_4o_mini_complete, openai_embed
    from heliograph.lightrag.utils import EmbeddingFunc

An import from `lightrag.X` becomes one from `heliograph.lightrag.X`; docs/lightrag-api.md lists the supported names.
"""

from heliograph._version import __version__
from heliograph.lightrag.lightrag import ROLES, EmbeddingFunc, LightRAG, QueryParam, RoleLLMConfig, RoleSpec
from heliograph.lightrag.missing import MissingModules

__all__ = ["ROLES", "EmbeddingFunc", "LightRAG", "QueryParam", "RoleLLMConfig", "RoleSpec", "__version__"]

MissingModules.install()
