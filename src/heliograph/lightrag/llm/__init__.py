"""Model functions as programs import them from LightRAG's `llm`, for OpenAI-compatible services and Ollama."""
