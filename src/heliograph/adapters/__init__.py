"""Heliograph as a retriever of other frameworks: LangChain, LlamaIndex, Haystack; one thin file and one extra each."""
