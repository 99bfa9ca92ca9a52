from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import heliograph.ingest
import heliograph.prompts
import heliograph.text
from heliograph.evaluation.harness import IndexPlan, plan_index
from heliograph.evaluation.sets import map_corpus, read_set
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel


def planned(harbour: Path, **sections: dict[str, Any]) -> IndexPlan:
    corpus = map_corpus(read_set(harbour))
    return plan_index("harbour", corpus, Settings.load(**sections), FakeEmbeddingModel().info, Path("indexes"))


@pytest.mark.parametrize("extractor", ["auto", "chat", "local"])
@pytest.mark.parametrize("other", [{"model": "b"}, {"model": "a", "temperature": 1.0}])
def test_index_depends_on_the_chat_model_whoever_extracts(
    harbour: Path, extractor: str, other: dict[str, object]
) -> None:
    first, second = (planned(harbour, ingest={"extractor": extractor}, chat=chat) for chat in ({"model": "a"}, other))
    assert first.fingerprint != second.fingerprint
    assert first.folder != second.folder


def test_index_by_a_local_extractor_is_another_with_a_chat_model(harbour: Path) -> None:
    local = {"extractor": "local"}
    assert planned(harbour, ingest=local) != planned(harbour, ingest=local, chat={"model": "a"})


@pytest.mark.parametrize(
    ("name", "value", "is_other"),
    [
        ("max_parallel_documents", 2, False),
        ("engine", "ray", False),
        ("max_document_characters", 1_000, False),
        # The passages are longer, and would be refused.
        ("max_document_characters", 10, True),
        ("overlap_tokens", 7, True),
    ],
)
def test_index_depends_on_settings_of_ingest_that_change_what_it_holds(
    harbour: Path, name: str, value: object, *, is_other: bool
) -> None:
    first, second = planned(harbour), planned(harbour, ingest={name: value})
    assert (first.fingerprint != second.fingerprint) is is_other


@pytest.mark.parametrize(
    ("section", "file", "is_other"),
    [
        (heliograph.ingest, "summary.py", True),
        (heliograph.text, "words/stop_de.txt", True),
        (heliograph.prompts, "extract_json.txt", True),
        (heliograph.prompts, "summarize.txt", True),
        (heliograph.prompts, "answer.txt", False),
        (heliograph.prompts, "answer_naive.txt", False),
        (heliograph.prompts, "keywords.txt", False),
        (heliograph.prompts, "understanding.txt", False),
    ],
)
def test_index_depends_on_code_words_and_prompts_that_documents_are_read_with(
    harbour: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: ModuleType, file: str, *, is_other: bool
) -> None:
    copy = tmp_path / "section"
    shutil.copytree(Path(section.__path__[0]), copy)
    monkeypatch.setattr(section, "__path__", [str(copy)])
    before = planned(harbour).code
    (copy / file).write_text((copy / file).read_text("utf-8") + "#", "utf-8")
    assert (planned(harbour).code != before) is is_other
