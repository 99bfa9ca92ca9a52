"""Model functions for OpenAI on Azure, in the module from which programs import them."""

from heliograph.lightrag.llm.openai import azure_openai_complete, azure_openai_complete_if_cache, azure_openai_embed

__all__ = ["azure_openai_complete", "azure_openai_complete_if_cache", "azure_openai_embed"]
