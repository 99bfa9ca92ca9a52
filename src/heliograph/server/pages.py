"""The web pages: our own, and a built one of LightRAG if its folder is configured.

Pages are static files; their data comes from the same routes as for every client, with the same credentials. Both have
a path of their own, `/page/` and `/webui/`, and `/` redirects to one of them. `/docs` redirects to our own API page,
which the browser builds from `/openapi.json`; that needs credentials.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from heliograph.errors import SettingsError
from heliograph.settings import ServerSettings

_OWN_FOLDER = Path(__file__).parent / "page"
_PLACEHOLDER = b"<!-- __LIGHTRAG_RUNTIME_CONFIG__ -->"
_OWN_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; worker-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors {ancestors}"
)
# The page lays its graph out in workers created from text, and uses inline styles.
_LIGHTRAG_POLICY = (
    "default-src 'self'; script-src 'self' {script}; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self' data:; worker-src 'self' blob:; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
# The page lists all supported file types in a box with space for some forty: make it scroll.
_LIGHTRAG_STYLE = b'<style>input[type="file"] ~ div p { max-height: 5rem; overflow-y: auto; }</style>'
_ALWAYS_ASK = {"Cache-Control": "no-cache"}
_NEVER_KEEP = {"Cache-Control": "no-cache, no-store, must-revalidate", "Pragma": "no-cache", "Expires": "0"}
_KEEP = {"Cache-Control": "public, max-age=31536000, immutable"}


class OwnPage(StaticFiles):
    """Our own page: it loads nothing from elsewhere, and runs only scripts that are its own files.

    No page may show it in a frame, except those of this service if `is_framed` says so.
    """

    def __init__(self, *, is_framed: bool = False) -> None:
        super().__init__(directory=_OWN_FOLDER, html=True)
        ancestors = "'self'" if is_framed else "'none'"
        self._guards = {"Content-Security-Policy": _OWN_POLICY.format(ancestors=ancestors)}
        if is_framed:
            self._guards["X-Frame-Options"] = "SAMEORIGIN"

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file, or 304 if the browser has it; files with a hash in their name are cached permanently."""
        response = await super().get_response(path, scope)
        keeping = _KEEP if path.startswith(f"assets{os.sep}") else _ALWAYS_ASK
        response.headers.update({**keeping, **self._guards})
        return response


class LightragPage(StaticFiles):
    """A built web page of LightRAG; it is configured with the paths at which it is served.

    Its folder holds its `index.html`. Its start page is the file `index`, and no other start page is served; `path` has
    no slash at the end.
    """

    def __init__(self, folder: Path, path: str, index: str = "index.html") -> None:
        super().__init__(directory=folder, html=True)
        self._folder = folder
        self._path = path
        self._index = index

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file; browsers never cache pages, and cache files with a hash in their name permanently."""
        if path in ("", "."):
            path = self._index
        if path.lower().endswith(".html"):
            if path != self._index:
                raise HTTPException(404, "there is no such page here")
            root = _root(scope)
            config = {"apiPrefix": root, "webuiPrefix": f"{root}{self._path}/", "webuiTitle": None}
            script = f"window.__LIGHTRAG_CONFIG__ = {json.dumps(config)};".replace("</", "<\\/").encode()
            digest = base64.b64encode(hashlib.sha256(script).digest()).decode()
            content = (self._folder / self._index).read_bytes()
            policy = _LIGHTRAG_POLICY.format(script=f"'sha256-{digest}'")
            headers = {**_NEVER_KEEP, "Content-Security-Policy": policy}
            content = content.replace(_PLACEHOLDER, b"<script>" + script + b"</script>")
            content = content.replace(b"</head>", _LIGHTRAG_STYLE + b"</head>")
            return Response(content, headers=headers, media_type="text/html")
        response = await super().get_response(path, scope)
        # Paths use this system's separator here.
        response.headers.update(_KEEP if path.startswith(f"assets{os.sep}") else _ALWAYS_ASK)
        return response


def add_pages(app: FastAPI, settings: ServerSettings) -> None:
    """Serve our own page, LightRAG's if the settings name it, and redirect `/` to one of them.

    Raises:
        SettingsError: There is no page in the folder that the settings name.
    """
    mounts: dict[str, StaticFiles] = {"/page": OwnPage()}
    if (folder := settings.web_page_dir) is not None:
        if not (folder / "index.html").is_file():
            raise SettingsError(
                f"server.web_page_dir is {str(folder)!r}, which holds no index.html; name the folder of a built page"
            )
        entries = {"/webui": "index.html", "/workspace": "workspace.html"}
        built = {path: index for path, index in entries.items() if (folder / index).is_file()}
        # LightRAG's page before 1.5.7 shows `/docs` in a frame.
        mounts = {path: LightragPage(folder, path, index) for path, index in built.items()}
        mounts["/page"] = OwnPage(is_framed=True)
    first = next(iter(mounts))

    @app.get("/", include_in_schema=False)
    async def lead_to_page(request: Request) -> RedirectResponse:  # pyright: ignore[reportUnusedFunction]
        return RedirectResponse(f"{_root(request.scope)}{first}/")

    if settings.web_page_dir is None:
        # The path in bookmarks of LightRAG's users.
        app.get("/webui/", include_in_schema=False)(lead_to_page)

    @app.get("/redoc", include_in_schema=False)
    @app.get("/docs", include_in_schema=False)
    async def lead_to_api(request: Request) -> RedirectResponse:  # pyright: ignore[reportUnusedFunction]
        return RedirectResponse(f"{_root(request.scope)}/page/#/api")

    @app.get("/ui/customization", include_in_schema=False)
    async def tell_brand() -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        brand = {"title": app.title, "description": "Answers from your documents"}
        return JSONResponse({"customized": False, "brand": brand}, headers={"Cache-Control": "no-store"})

    for path, files in mounts.items():
        app.mount(path, files)


def _root(scope: Scope) -> str:
    # Below a mount, `root_path` ends with the mount's own path.
    return str(scope.get("app_root_path", scope.get("root_path", ""))).rstrip("/")
