from __future__ import annotations

import base64
import gzip
import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import heliograph.server
from heliograph.engine import Given
from heliograph.errors import SettingsError
from heliograph.server.app import create_app
from heliograph.settings import Settings
from heliograph.testing.fakes import FakeEmbeddingModel

PAGE = Path(heliograph.server.__file__).parent / "page"
MOST_BYTES = 1_400_000
MOST_FIRST_BYTES = 250_000


@asynccontextmanager
async def served(folder: Path, root_path: str = "", **server: Any) -> AsyncGenerator[httpx.AsyncClient]:
    settings = Settings.load(store={"data_dir": folder / "kb"}, server={"api_key": "key", **server})
    app = create_app(settings, Given(embedding=FakeEmbeddingModel(16)))
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app, root_path=root_path)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            yield client


@pytest.fixture
def built(tmp_path: Path) -> Path:
    folder = tmp_path / "built"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<head><!-- __LIGHTRAG_RUNTIME_CONFIG__ --></head>")
    (folder / "workspace.html").write_text("<p>other</p>")
    (folder / "assets" / "index-abc.js").write_text("1")
    (folder / "favicon.png").write_bytes(b"png")
    (tmp_path / "secret.txt").write_text("secret")
    return folder


async def test_own_page_is_served_to_everybody_with_a_strict_policy(tmp_path: Path) -> None:
    async with served(tmp_path) as client:
        start = await client.get("/")
        assert (start.status_code, start.headers["Location"]) == (307, "/page/")
        assert (await client.get("/webui/")).headers["Location"] == "/page/"
        page = await client.get("/page/")
        assert page.status_code == 200
        assert "unsafe-inline" not in page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in page.headers["Content-Security-Policy"]
        again = await client.get("/page/", headers={"If-None-Match": page.headers["ETag"]})
        assert again.status_code == 304
        assert (await client.get("/graph/label/list")).status_code in (401, 403)


def test_own_page_is_small_and_asks_nobody_else() -> None:
    files = [path for path in PAGE.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    for path in files:
        if path.suffix in (".html", ".css"):
            assert not re.search(r"https?://|url\(data:", path.read_text("utf-8")), path.name
        if path.suffix == ".js":
            assert not re.search(r"\beval\(|new Function\(", path.read_text("utf-8")), path.name
    index = (PAGE / "index.html").read_text("utf-8")
    assert not re.search(r"<style|\bstyle=|\bon\w+=|<script(?![^>]*\bsrc=)", index)
    # What is read before the first question can be asked; the graph, formulas and colours of code are not.
    first = [PAGE / name.removeprefix("./") for name in re.findall(r'(?:src|href)="([^"]+)"', index)]
    assert sum(len(gzip.compress(path.read_bytes())) for path in first) < MOST_FIRST_BYTES


async def test_files_with_a_hash_in_their_name_are_kept_and_others_asked_for_again(tmp_path: Path) -> None:
    script = next(PAGE.glob("assets/index-*.js")).name
    async with served(tmp_path) as client:
        assert "immutable" in (await client.get(f"/page/assets/{script}")).headers["Cache-Control"]
        assert (await client.get("/page/theme.js")).headers["Cache-Control"] == "no-cache"


@pytest.mark.parametrize("path", ["/page/../app.py", "/page/%2e%2e/app.py", "/page/..%2fapp.py", "/page//etc/passwd"])
async def test_files_outside_the_page_are_not_served(tmp_path: Path, path: str) -> None:
    async with served(tmp_path) as client:
        assert (await client.get(path)).status_code in (401, 403, 404)


async def test_built_page_is_told_where_it_is_served(tmp_path: Path, built: Path) -> None:
    async with served(tmp_path, web_page_dir=built) as client:
        assert (await client.get("/")).headers["Location"] == "/webui/"
        page = await client.get("/webui/")
        expected = (
            '<script>window.__LIGHTRAG_CONFIG__ = {"apiPrefix": "", "webuiPrefix": "/webui/", "webuiTitle": null};'
        )
        assert expected in page.text
        assert page.headers["Content-Type"].startswith("text/html")
        assert "no-store" in page.headers["Cache-Control"]
        script = page.text.split("<script>")[1].split("</script>")[0]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in page.headers["Content-Security-Policy"]
        assert (await client.get("/webui/index.html")).text == page.text
        assert (await client.get("/webui/workspace.html")).status_code == 404
        assert (await client.get("/workspace/")).text == "<p>other</p>"
        asset = await client.get("/webui/assets/index-abc.js")
        assert "immutable" in asset.headers["Cache-Control"]
        assert "javascript" in asset.headers["Content-Type"]
        assert "immutable" not in (await client.get("/webui/favicon.png")).headers["Cache-Control"]
        assert (await client.get("/webui/..%2fsecret.txt")).status_code == 404
        assert (await client.get("/page/")).status_code == 200
        brand = await client.get("/ui/customization", params={"locale": "zh-CN"})
        assert brand.json()["customized"] is False


async def test_own_page_is_shown_in_a_frame_of_the_built_one_alone(tmp_path: Path, built: Path) -> None:
    async with served(tmp_path) as client:
        page = await client.get("/page/")
        assert page.headers["X-Frame-Options"] == "DENY"
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
    async with served(tmp_path, web_page_dir=built) as client:
        page, other = await client.get("/page/"), await client.get("/webui/")
        assert (page.headers["X-Frame-Options"], other.headers["X-Frame-Options"]) == ("SAMEORIGIN", "DENY")
        assert "frame-ancestors 'self'" in page.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in other.headers["Content-Security-Policy"]


async def test_built_page_behind_a_prefix_is_told_the_prefix(tmp_path: Path, built: Path) -> None:
    async with served(tmp_path, web_page_dir=built, root_path="/kb") as client:
        assert (await client.get("/kb/")).headers["Location"] == "/kb/webui/"
        assert '"apiPrefix": "/kb", "webuiPrefix": "/kb/webui/"' in (await client.get("/kb/webui/")).text


async def test_prefix_is_served_whether_or_not_the_proxy_leaves_it_in_the_path(tmp_path: Path, built: Path) -> None:
    # The server puts the prefix before every path it is sent.
    async with served(tmp_path, web_page_dir=built, root_path="/kb") as client:
        assert (await client.get("/kb/kb/health")).json()["status"] == "healthy"
        assert (await client.get("/kb/kb/")).headers["Location"] == "/kb/webui/"
        assert (await client.get("/kb/kb/webui/")).text == (await client.get("/kb/webui/")).text
        assert (await client.get("/kb/kb/api/tags", headers={"X-API-Key": "key"})).status_code == 200
        assert (await client.get("/kb/kb/graph/label/list")).status_code in (401, 403)
        assert (await client.get("/kb/kbx/health", headers={"X-API-Key": "key"})).status_code == 404
    async with served(tmp_path, root_path="/api") as client:
        assert (await client.get("/api/api/tags", headers={"X-API-Key": "key"})).status_code == 200


def test_folder_without_a_page_is_refused(tmp_path: Path) -> None:
    settings = Settings.load(store={"data_dir": tmp_path}, server={"web_page_dir": tmp_path})
    with pytest.raises(SettingsError, match=r"index\.html"):
        create_app(settings)


async def test_api_page_is_found_at_docs_and_its_document_stays_guarded(tmp_path: Path) -> None:
    async with served(tmp_path, root_path="/kb") as client:
        assert (await client.get("/kb/docs")).headers["Location"] == "/kb/page/#/api"
        page = await client.get("/kb/page/")
        assert (page.status_code, "default-src 'none'" in page.headers["Content-Security-Policy"]) == (200, True)
        assert (await client.get("/kb/openapi.json")).status_code in (401, 403)
        assert (await client.get("/kb/docs/openapi.json")).status_code in (401, 403)
