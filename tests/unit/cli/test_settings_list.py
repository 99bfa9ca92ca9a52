from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from heliograph.cli.installation import list_settings, list_values, settings_markdown
from heliograph.errors import SettingsError
from heliograph.settings import Settings, StoreSettings

from .conftest import World
from .test_process import COMMAND

PAGE = Path(__file__).resolve().parents[3] / "docs" / "settings.md"


def test_settings_page_is_what_the_command_prints(world: World) -> None:
    result = world.run("settings", "--markdown")
    assert result.stdout == PAGE.read_text("utf-8"), "run: heliograph settings --markdown > docs/settings.md"


def test_list_settings_has_every_field_described() -> None:
    rows = list_settings()
    assert len(rows) == sum(len(type(getattr(Settings(), room)).model_fields) for room in Settings.model_fields)
    assert all(row.description and row.allowed and row.default for row in rows)


def test_list_settings_names_the_variable() -> None:
    assert "HELIOGRAPH_CHAT__BASE_URL" in {row.environment for row in list_settings()}


def test_values_say_where_they_come_from(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_CHAT__API_KEY", "hunter2")
    world.write("heliograph.toml", '[chat]\nmodel = "m"\n[query]\ntop_k = 7\n')
    values = {item.path: item for item in list_values(Settings.load(), ["store.data_dir"])}
    assert values["chat.model"].origin == "heliograph.toml"
    assert values["query.top_k"].value == 7
    assert values["chat.api_key"].origin == "environment"
    assert "hunter2" not in str(values["chat.api_key"].value)
    assert values["store.data_dir"].origin == "command line"
    assert values["ingest.language"].origin == "default"


def test_settings_command_shows_them_all(world: World) -> None:
    rows = world.json("settings")["settings"]
    assert {row["room"] for row in rows} == set(Settings.model_fields)
    shown = world.run("settings", width=160)
    assert "HELIOGRAPH" not in shown.stderr
    assert "store.write_timeout_seconds" in shown.stdout


def test_settings_in_a_pipe_are_a_line_each_that_begins_with_name_and_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where a width is given, it is kept to.
    monkeypatch.delenv("COLUMNS", raising=False)
    done = subprocess.run((*COMMAND, "settings"), cwd=tmp_path, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 1 + len(list_settings())
    assert ["ingest.overlap_tokens", "100", "default"] in [line.split()[:3] for line in lines]


def test_settings_page_escapes_table_separators() -> None:
    for line in settings_markdown().splitlines():
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") == 6


def test_unknown_setting_is_told_with_the_one_that_may_be_meant() -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.load(chat={"modell": "x"}, chatt={"model": "x"}, store={"nothing_like_it": 1})
    lines = str(raised.value).splitlines()[1:]
    assert sorted(line.strip() for line in lines) == [
        "chat.modell: there is no such setting; did you mean 'model'?",
        "chatt: there is no such setting; did you mean 'chat'?",
        "store.nothing_like_it: there is no such setting",
    ]


def test_unknown_room_in_the_environment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_CHTA__MODEL", "x")
    with pytest.raises(SettingsError, match="chta: there is no such setting; did you mean 'chat'"):
        Settings.load()


@pytest.mark.parametrize(
    ("url", "place"),
    [("sqlite:", "kb"), ("postgresql://ann:hunter2@db.example/knowledge", "postgresql://ann:***@db.example/knowledge")],
)
def test_place_of_a_workspace_is_where_its_truth_is(url: str, place: str) -> None:
    assert StoreSettings.model_validate({"url": url, "data_dir": "kb"}).place == place
