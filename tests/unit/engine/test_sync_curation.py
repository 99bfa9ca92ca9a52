from __future__ import annotations

from pathlib import Path

from heliograph import Heliograph
from heliograph.testing.fakes import FakeEmbeddingModel


def test_entity_is_created_merged_and_taken_back(tmp_path: Path) -> None:
    with Heliograph(tmp_path, embedding=FakeEmbeddingModel(16)) as kb:
        kb.create_entity("Ann", description="made by hand")
        kb.create_entity("Annie")
        merge = kb.merge_entities("Annie", "Ann", author="eve")
        assert [entity.name for entity in kb.entities()] == ["Ann"]
        assert kb.undo(merge.id).undone_at is not None
        assert {entity.name for entity in kb.entities()} == {"Ann", "Annie"}
