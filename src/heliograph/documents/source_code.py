"""Source code and configuration: one fenced block in its language, under a heading that is the file's name."""

from __future__ import annotations

import re
from pathlib import PurePath
from urllib.parse import urlsplit

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.cleaning import clean_text
from heliograph.documents.encoding import decode_text

__all__ = ["CodeLoader", "fence"]

_LANGUAGES = {
    "bash": (".sh", ".bash", ".zsh"),
    "c": (".c", ".h"),
    "clojure": (".clj", ".cljs"),
    "cpp": (".cc", ".cpp", ".cxx", ".hh", ".hpp", ".ino"),
    "csharp": (".cs",),
    "css": (".css", ".scss", ".less"),
    "cmake": (".cmake",),
    "dart": (".dart",),
    "diff": (".diff", ".patch"),
    "elixir": (".ex", ".exs"),
    "erlang": (".erl", ".hrl"),
    "fsharp": (".fs", ".fsx"),
    "go": (".go",),
    "graphql": (".graphql", ".gql"),
    "groovy": (".groovy", ".gradle"),
    "haskell": (".hs",),
    "hcl": (".tf", ".hcl"),
    "ini": (".ini", ".cfg", ".conf", ".properties"),
    "java": (".java",),
    "javascript": (".js", ".mjs", ".cjs", ".jsx"),
    "julia": (".jl",),
    "kotlin": (".kt", ".kts"),
    "lisp": (".lisp", ".el"),
    "lua": (".lua",),
    "nix": (".nix",),
    "objectivec": (".m", ".mm"),
    "ocaml": (".ml", ".mli"),
    "perl": (".pl", ".pm"),
    "php": (".php",),
    "powershell": (".ps1", ".psm1"),
    "protobuf": (".proto",),
    "python": (".py", ".pyi", ".pyx"),
    "r": (".r",),
    "ruby": (".rb",),
    "rust": (".rs",),
    "scala": (".scala",),
    "sql": (".sql",),
    "swift": (".swift",),
    "toml": (".toml",),
    "typescript": (".ts", ".tsx", ".mts", ".cts"),
    "verilog": (".v", ".sv"),
    "vhdl": (".vhd", ".vhdl"),
    "vue": (".vue", ".svelte"),
    "xml": (".xml", ".xsd", ".xsl"),
    "yaml": (".yaml", ".yml"),
    "zig": (".zig",),
}
_BY_SUFFIX = {suffix: language for language, suffixes in _LANGUAGES.items() for suffix in suffixes}
_TICKS = re.compile(r"^ {0,3}(`{3,})", re.MULTILINE)


class CodeLoader(Loader):
    """Source code of any language that is known by its ending."""

    suffixes = frozenset(_BY_SUFFIX)
    mime_types = frozenset({"text/x-source", "text/x-python", "text/css", "text/javascript", "application/javascript"})

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        """See `Loader.load`."""
        code = clean_text(decode_text(raw.data, raw.name, raw.charset))
        path = PurePath(urlsplit(raw.name).path if "://" in raw.name else raw.name)
        language = _BY_SUFFIX.get(path.suffix.lower(), "")
        title = clean_text(path.name) or raw.name
        text = f"# {title}\n\n{fence(code, language)}\n" if code.strip() else ""
        return LoadedDocument(raw.name, title, text, {"programming_language": language})


def fence(code: str, language: str = "") -> str:
    """Return code as a fenced block, whose fence is longer than any within."""
    longest = max((len(ticks) for ticks in _TICKS.findall(code)), default=2)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{code.strip(chr(10))}\n{ticks}"
