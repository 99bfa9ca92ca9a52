"""What ships beside the package: every setting named there exists, and every template refers to a value."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from heliograph.settings import Settings

from .sources import ROOT

_VARIABLE = re.compile(r"HELIOGRAPH_([A-Z]+)__([A-Z_]+)")
_FILES = [
    *("Dockerfile", "compose.yaml", "compose.stores.yaml", "deploy/systemd/heliograph.service"),
    *("deploy/helm/heliograph/values.yaml", "deploy/helm/heliograph/templates/deployment.yaml"),
]
_CHART = ROOT / "deploy/helm/heliograph"


def known_settings() -> set[str]:
    sections = Settings.model_fields.items()
    return {f"{section}.{name}" for section, field in sections for name in field.annotation.model_fields}  # type: ignore[union-attr]


@pytest.mark.parametrize("path", _FILES)
def test_variables_are_settings(path: str) -> None:
    named = {f"{section}.{name}".lower() for section, name in _VARIABLE.findall((ROOT / path).read_text("utf-8"))}
    assert named <= known_settings()


@pytest.mark.parametrize("path", ["compose.yaml", "compose.stores.yaml"])
def test_compose_files_name_what_they_use(path: str) -> None:
    content = yaml.safe_load((ROOT / path).read_text("utf-8"))
    volumes = {
        mount.split(":")[0]
        for service in content["services"].values()
        for mount in service.get("volumes", [])
        if not mount.startswith(("/", "."))
    }
    assert volumes == set(content["volumes"])
    needed = {name for service in content["services"].values() for name in service.get("depends_on", {})}
    assert needed <= set(content["services"])


def test_chart_settings_are_valid() -> None:
    values = yaml.safe_load((_CHART / "values.yaml").read_text("utf-8"))
    assert Settings.load(**tomllib.loads(values["settings"])).server.host == "0.0.0.0"


@pytest.mark.parametrize("path", sorted((_CHART / "templates").glob("*.yaml")), ids=lambda path: path.name)
def test_templates_refer_to_values(path: Path) -> None:
    values: dict[str, Any] = yaml.safe_load((_CHART / "values.yaml").read_text("utf-8"))
    for reference in re.findall(r"\.Values\.([\w.]+)", path.read_text("utf-8")):
        found: Any = values
        for part in reference.split("."):
            assert part in found, f"{path.name} refers to .Values.{reference}"
            found = found[part]


def test_chart_waits_for_a_slow_start_and_asks_for_an_image() -> None:
    text = (_CHART / "templates/deployment.yaml").read_text("utf-8")
    for value in ("repository", "tag"):
        assert re.search(r'required "[^"]+" \.Values\.image\.' + value, text)
        assert yaml.safe_load((_CHART / "values.yaml").read_text("utf-8"))["image"][value] == ""
    plain = re.sub(r"\{\{.*?\}\}", "x", re.sub(r"(?m)^\s*\{\{-.*$|^\s*image:.*$", "", text))
    container = yaml.safe_load(plain.replace("checksum/settings: x", ""))["spec"]["template"]["spec"]["containers"][0]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= set(container)
    probe = container["startupProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 300


def test_unit_and_image_start_the_service() -> None:
    assert "heliograph serve" in (ROOT / "deploy/systemd/heliograph.service").read_text("utf-8")
    dockerfile = (ROOT / "Dockerfile").read_text("utf-8")
    assert 'ENTRYPOINT ["heliograph"]' in dockerfile
    assert "USER heliograph" in dockerfile


def test_site_lists_every_page() -> None:
    content = (ROOT / "mkdocs.yml").read_text("utf-8")
    listed = re.findall(r": ([\w-]+\.md)$", content, flags=re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))
