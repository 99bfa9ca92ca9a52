from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from heliograph import __version__
from heliograph.cli import installation as checks
from heliograph.embedding.base import EmbeddingModel
from heliograph.errors import ModelUnavailable, NotFoundError
from heliograph.settings import ChatSettings, EmbeddingSettings, RerankSettings, StoreSettings
from heliograph.stores.postgres.upkeep import find_workspaces
from heliograph.testing.fakes import FakeChatModel, FakeEmbeddingModel, FakeReranker

from .conftest import STORY, World


@pytest.fixture
def well(story: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world in which `doctor` gets the fakes too."""

    async def build(settings: EmbeddingSettings) -> EmbeddingModel:
        return FakeEmbeddingModel()

    monkeypatch.setattr(checks, "build_embedding_model", build)
    return story


def findings(world: World, *args: str) -> dict[str, dict[str, str]]:
    result = world.run("doctor", "--json", *args)
    report = json.loads(result.stdout)
    assert report["is_sound"] == (result.exit_code == 0)
    return {check["name"]: check for check in report["checks"]}


def test_version_is_printed(world: World) -> None:
    assert world.run("--version").stdout == f"heliograph {__version__}\n"


def test_stats_counts(story: World) -> None:
    stats = story.json("stats")
    assert stats["documents"] == {"processed": 2}
    assert stats["entities"] > 3
    assert "2 (2 processed)" in story.run("stats").stdout


def test_doctor_finds_a_sound_installation_sound(well: World) -> None:
    result = well.run("doctor")
    assert result.exit_code == 0
    assert __version__ in result.stdout
    assert "not configured, which is fine" in result.stdout
    found = findings(well)
    assert all(check["state"] == "ok" for check in found.values()), found
    assert "2 documents" in found["store"]["detail"]
    assert "dimension 64" in found["embedding"]["detail"]


def test_doctor_makes_no_workspace(well: World) -> None:
    assert "nothing is indexed yet" in findings(well, "--workspace", "other")["store"]["detail"]
    assert not (well.folder / "heliograph_data" / "other").exists()


def test_doctor_reports_a_broken_store(well: World) -> None:
    path = well.folder / "heliograph_data" / "default" / "heliograph.db"
    for wal in path.parent.glob("heliograph.db-*"):
        wal.unlink()
    path.write_bytes(b"rubbish" * 1000)
    found = findings(well)
    assert found["store"]["state"] == "fail"
    assert "Traceback" not in well.run("doctor").output


def test_doctor_reports_another_embedding(well: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def build(settings: EmbeddingSettings) -> EmbeddingModel:
        return FakeEmbeddingModel(32, name="other")

    monkeypatch.setattr(checks, "build_embedding_model", build)
    store = findings(well)["store"]
    assert store["state"] == "fail"
    assert "'other'" in store["detail"]


def test_doctor_reports_an_embedding_that_fails(well: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def build(settings: EmbeddingSettings) -> EmbeddingModel:
        raise ModelUnavailable("no weights")

    monkeypatch.setattr(checks, "build_embedding_model", build)
    found = findings(well)
    assert found["embedding"] == {"name": "embedding", "state": "fail", "detail": "no weights"}
    assert found["store"]["state"] == "warn"


def test_doctor_survives_what_nobody_expected(well: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def tag_words(texts: list[str]) -> list[object]:
        raise RuntimeError("boom")

    monkeypatch.setattr(checks, "tag_words", tag_words)
    assert findings(well)["Chinese words"]["detail"] == "unexpected RuntimeError: boom"


def test_doctor_reports_settings_that_are_not_valid(well: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_CHAT__TIMEOUT_SECONDS", "-1")
    assert "chat.timeout_seconds" in findings(well)["settings"]["detail"]


def test_doctor_masks_secrets(well: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_CHAT__API_KEY", "hunter2")
    found = findings(well)
    assert "chat.api_key" in found["settings"]["detail"]
    assert "hunter2" not in well.run("doctor").output


def test_doctor_advises_to_resume_and_retry(well: World) -> None:
    well.write("docs/empty.md", "\n")
    well.run("index", "docs")
    store = findings(well)["store"]
    assert store["state"] == "warn"
    assert "heliograph retry" in store["detail"]


def test_doctor_reports_a_folder_that_is_a_file(well: World) -> None:
    well.write("occupied", "x")
    found = findings(well, "--data-dir", "occupied")
    assert found["data folder"]["state"] == "fail"
    assert "is a file" in found["data folder"]["detail"]


@pytest.mark.parametrize(
    ("replies", "failure", "state"),
    [("OK", None, "ok"), ("OK", ModelUnavailable("refused"), "fail")],
)
def test_doctor_asks_the_chat_model(
    well: World, monkeypatch: pytest.MonkeyPatch, replies: str, failure: ModelUnavailable | None, state: str
) -> None:
    model = FakeChatModel(replies)
    if failure:
        model.fail_next(failure)
    asked: list[ChatSettings] = []

    def build(settings: ChatSettings, replies: object) -> FakeChatModel:
        asked.append(settings)
        return model

    monkeypatch.setattr(checks, "build_chat_model", build)
    assert findings(well)["chat model"]["state"] == state
    assert model.is_closed
    assert asked[0].max_retries == 0
    assert asked[0].timeout_seconds <= 15


def test_settings_that_are_not_valid_stop_every_command(world: World) -> None:
    world.write("heliograph.toml", "[query]\ntop_k = 0\ncolour = 1\n")
    result = world.run("stats")
    assert result.exit_code == 2
    assert "query.top_k" in result.stderr
    assert "query.colour" in result.stderr


def test_help_needs_no_valid_settings(world: World) -> None:
    world.write("heliograph.toml", "nonsense")
    assert world.run("query", "--help").exit_code == 0


def test_verbose_shows_the_log_and_tracebacks(story: World) -> None:
    result = story.run("entity", "Nobody", "--verbose")
    assert result.exit_code == 3
    assert NotFoundError.__name__ in result.stderr
    assert "Traceback" in result.stderr


def test_stores_of_the_tests_stay_in_their_folder(story: World) -> None:
    assert all(Path(item.store.data_dir) == Path("heliograph_data") for item in story.settings)


@pytest.mark.parametrize(
    ("scores", "failure", "state"),
    [((1.0, 0.0), None, "ok"), ((0.0, 1.0), None, "warn"), ((1.0, 0.0), ModelUnavailable("refused"), "fail")],
)
def test_doctor_asks_the_reranker(
    well: World,
    monkeypatch: pytest.MonkeyPatch,
    scores: tuple[float, float],
    failure: ModelUnavailable | None,
    state: str,
) -> None:
    model = FakeReranker(lambda _, text: scores["Mars" not in text])
    if failure:
        model.fail_next(failure)
    asked: list[RerankSettings] = []

    async def build(settings: RerankSettings) -> FakeReranker:
        asked.append(settings)
        return model

    monkeypatch.setattr(checks, "build_reranker", build)
    assert findings(well)["reranker"]["state"] == state
    assert model.is_closed
    assert asked[0].max_retries == 0
    assert asked[0].timeout_seconds <= 15


def test_mistyped_workspace_on_a_server_is_not_there_and_is_not_made(
    well: World, postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOGRAPH_STORE__URL", postgres_database)
    well.write("a.md", STORY)
    name = f"w{uuid4().hex}"
    assert well.run("--workspace", name, "index", "a.md").exit_code == 0
    for command in (("stats",), ("query", "Who kept the light?"), ("check",), ("entities",)):
        result = well.run("--workspace", f"{name}x", *command)
        assert result.exit_code == 3
        assert "store.url and --workspace" in result.stderr
    assert find_workspaces(StoreSettings.model_validate({"url": postgres_database})).count(f"{name}x") == 0
    assert "nothing is indexed" in findings(well, "--workspace", f"{name}x")["store"]["detail"]
    assert well.run("--workspace", name, "stats").exit_code == 0


def test_server_out_of_reach_is_named(well: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_STORE__URL", "postgresql://ann:hunter2@127.0.0.1:9/knowledge")
    result = well.run("stats")
    assert result.exit_code == 4
    assert "out of reach" in result.stderr
    assert "hunter2" not in result.output
    assert findings(well)["store"]["state"] == "fail"
