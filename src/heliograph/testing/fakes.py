"""The fake models in one place: chat, embedding and rerank, without network and without cost."""

from heliograph.testing.fakes_chat import FakeChatModel
from heliograph.testing.fakes_embedding import FakeEmbeddingModel
from heliograph.testing.fakes_rerank import FakeReranker

__all__ = ["FakeChatModel", "FakeEmbeddingModel", "FakeReranker"]
