"""Loads the formats that are text: plain text, Markdown, program text, CSV and TSV, JSON and JSON lines.

Front matter of Markdown becomes metadata; program text becomes one fenced block; rows become one Markdown table;
records of JSON become sections with their fields as lists.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath
from typing import Any, cast
from urllib.parse import urlsplit

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.chats import chat_markdown
from heliograph.documents.encoding import decode_text
from heliograph.documents.markdown import (
    clean_text,
    fence,
    find_title,
    markdown_table,
    name_title,
    nest_headings,
    split_front_matter,
    too_long,
)
from heliograph.documents.markups import MARKUPS
from heliograph.documents.terminal_text import drawn_tables, join_pages, terminal_markdown
from heliograph.errors import IngestError
from heliograph.text.sentences import join_full_lines


class MarkdownLoader(Loader):
    """Markdown: the fields of its front matter are metadata, and its `title` is the title."""

    suffixes = frozenset({".md", ".markdown", ".mdown", ".mkd", ".mdx"})
    mime_types = frozenset({"text/markdown", "text/x-markdown"})

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        loaded = _load_text(raw)
        text = _NOTE_MARKS.sub(_plain_note, loaded.text)
        return replace(loaded, text=text, title=loaded.title or find_title(text))


# Links between notes, as Obsidian, Logseq, Foam and Notion write them, and lines that are only an HTML tag; in code the
# same marks mean something else.
_NOTE_MARKS = re.compile(
    r"(?P<code>^ {0,3}(?P<fence>```+|~~~+).*?(?:^ {0,3}(?P=fence)|\Z)|(?<!`)(?P<ticks>`{1,20})(?!`)[^`\n]*(?P=ticks))"
    r"|(?<![A-Za-z0-9_])(?P<shown>!?)\[\[(?P<target>[^\W\d][^\[\]|\n]*|#[^\[\]|\n]+)(?:\|(?P<words>[^\[\]\n]*))?\]\]"
    r"|(?<!!)\[(?P<linked>[^\[\]\n]+)\]\((?![a-z]+:)[^()\s]*\.(?:md|csv)(?:#[^()\s]*)?\)"
    r"|(?P<tag>^[ \t]*</?(?:aside|details|div|p|center|section)\b[^<>\n]*>[ \t]*$)",
    re.MULTILINE | re.DOTALL,
)
_PICTURE_NAME = re.compile(r"\.(?:png|jpe?g|gif|svg|webp|bmp|mp[34]|webm|mov|pdf|canvas)\b", re.IGNORECASE)


def _plain_note(match: re.Match[str]) -> str:
    """Return the displayed words of a link between notes, `Note > Section` if it has none of its own."""
    if match["code"] or match["tag"] or match["linked"]:
        return match["code"] or match["linked"] or ""
    # In a table cell the bar is escaped.
    target, words = match["target"].removesuffix("\\"), (match["words"] or "").strip()
    if match["shown"] and _PICTURE_NAME.search(target):
        return ""
    page, _, section = target.partition("#")
    place = "" if section.startswith("^") else section.strip()
    return words or " > ".join(filter(None, (page.strip(), place)))


class TextLoader(Loader):
    """Plain text: laid out for a terminal, or as Markdown under its name."""

    suffixes = frozenset({".txt", ".text", ".log"})
    mime_types = frozenset({"text/plain"})

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        loaded = _load_text(raw)
        paged = join_pages(loaded.text)
        marked = terminal_markdown(paged)
        title = loaded.title or find_title(marked or loaded.text)
        return replace(loaded, text=marked or drawn_tables(paged), title=title)


_MARKUP_TYPES = {"text/x-rst": ".rst", "text/vtt": ".vtt", "application/x-subrip": ".srt", "text/asciidoc": ".adoc"}


class MarkupLoader(Loader):
    """Text in a markup other than Markdown, and captions."""

    suffixes = frozenset(MARKUPS)
    mime_types = frozenset(_MARKUP_TYPES)
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        loaded = _load_text(raw)
        suffix = PurePath(raw.name.lower().removesuffix(".txt")).suffix
        read = MARKUPS.get(suffix if suffix in MARKUPS else _MARKUP_TYPES.get(raw.mime_type, ""))
        text = (read(loaded.text) if read else None) or loaded.text
        stated = next((kind for kind, ending in _MARKUP_TYPES.items() if ending == suffix), "text/plain")
        metadata = {"mime_type": raw.mime_type if raw.mime_type in _MARKUP_TYPES else stated, **loaded.metadata}
        return replace(loaded, text=text, title=loaded.title or find_title(text), metadata=metadata)


def _load_text(raw: RawDocument) -> LoadedDocument:
    """Return a text without its front matter, whose fields become metadata; its title is the one stated there."""
    fields, body = split_front_matter(clean_text(decode_text(raw.data, raw.name, raw.charset)))
    title = fields.pop("title", "")
    stated = title if isinstance(title, str) else ""
    return LoadedDocument(raw.name, stated, join_full_lines(body), fields)


# Suffixes of XML that may be text, which `xml_document` decides.
XML_TEXTS = frozenset({".xml", ".docbook", ".dbk", ".page", ".dita", ".tei", ".fb2", ".rss", ".atom"})
_LANGUAGES = {
    "bash": (".sh", ".bash", ".zsh"),
    "batch": (".bat", ".cmd"),
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
    "xml": (".xsd", ".xsl", *XML_TEXTS),
    "yaml": (".yaml", ".yml"),
    "zig": (".zig",),
}
_BY_SUFFIX = {suffix: language for language, suffixes in _LANGUAGES.items() for suffix in suffixes}


class CodeLoader(Loader):
    """Source code of any language that is known by its suffix."""

    suffixes = frozenset(_BY_SUFFIX) - XML_TEXTS
    mime_types = frozenset({"text/x-source", "text/x-python", "text/css", "text/javascript", "application/javascript"})

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        code = clean_text(decode_text(raw.data, raw.name, raw.charset))
        path = PurePath(urlsplit(raw.name).path if "://" in raw.name else raw.name)
        language = _BY_SUFFIX.get(path.suffix.lower(), "")
        title = clean_text(path.name) or raw.name
        text = f"# {title}\n\n{fence(code, language)}\n" if code.strip() else ""
        return LoadedDocument(raw.name, title, text, {"programming_language": language})


_SAMPLE_CHARACTERS = 20_000
_DELIMITERS = ",;\t|"


class DelimitedLoader(Loader):
    """Rows of delimited values; comma, semicolon, tab or bar, whichever gives the most regular rows."""

    suffixes = frozenset({".csv", ".tsv", ".tab"})
    mime_types = frozenset({"text/csv", "text/tab-separated-values"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        text = clean_text(decode_text(raw.data, raw.name, raw.charset))
        is_tabbed = PurePath(raw.name).suffix.lower() in {".tsv", ".tab"} or raw.mime_type.endswith(
            "tab-separated-values"
        )
        delimiter = "\t" if is_tabbed else _delimiter(text[:_SAMPLE_CHARACTERS])
        csv.field_size_limit(limits.max_characters)
        try:
            rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if any(row)]
        except csv.Error as error:
            if "field limit" in str(error):
                raise too_long(raw.name, limits.max_characters, len(text)) from error
            raise IngestError(f"{raw.name!r} is not delimited text ({error}); save it as CSV in UTF-8") from error
        title = name_title(raw.name)
        body = f"# {title}\n\n{markdown_table(rows)}\n" if rows else ""
        return LoadedDocument(raw.name, title, body, {"row_count": max(0, len(rows) - 1)})


def _delimiter(sample: str) -> str:
    """Return the delimiter that splits the most rows into the same number of cells, at least two."""

    def steadiness(delimiter: str) -> tuple[int, int]:
        rows = list(csv.reader(io.StringIO(sample), delimiter=delimiter))[:50]
        widths = [len(row) for row in rows if len(row) > 1]
        most = max(set(widths), key=widths.count, default=0)
        return widths.count(most), most

    try:
        return max(_DELIMITERS, key=steadiness)
    except csv.Error:
        return ","


# JSON and JSON lines: records become sections, their fields a list; long texts become paragraphs.
#
# A list of objects, or one object per line, is a list of records. Each gets a heading from its title, name or id, so
# that its chunks say which record they come from. Everything else is one nested list of `key: value`.

_LINE_SUFFIXES = frozenset({".jsonl", ".ndjson"})
_TITLE_KEYS = ("title", "name", "subject", "headline", "id", "_id", "key")
_MAX_TITLE_LENGTH = 120
# A text at least this long is a paragraph of its own, not an item of a list.
_PARAGRAPH_CHARACTERS = 200


class JsonLoader(Loader):
    """JSON, and JSON lines."""

    suffixes = frozenset({".json", *_LINE_SUFFIXES})
    mime_types = frozenset({"application/json", "application/x-ndjson", "application/jsonl"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        text = decode_text(raw.data, raw.name, raw.charset)
        value = parse_json(text, raw)
        title = name_title(raw.name)
        if not value and not isinstance(value, int | float | bool):
            return LoadedDocument(raw.name, title, "")
        chat = None
        with suppress(AttributeError, TypeError):
            # JSON that only resembles a chat is read as records.
            chat = chat_markdown(value)
        if chat is not None:
            # In Slack exports, each day is a file in its channel's folder.
            path = PurePath(raw.name)
            title = chat[0] or " ".join(filter(None, (path.parent.name if isinstance(value, list) else "", title)))
            return LoadedDocument(raw.name, title, f"# {title}\n\n{chat[1]}\n" if chat[1] else "")
        try:
            markdown = records_markdown(title, value)
        except RecursionError as error:
            raise IngestError(f"{raw.name!r} nests too deeply; flatten it") from error
        records = {"record_count": len(cast("list[Any]", value))} if isinstance(value, list) else {}
        return LoadedDocument(raw.name, title, markdown, records)


def parse_json(text: str, raw: RawDocument) -> Any:
    """Parse JSON or JSON lines; an empty text gives None. Raises `IngestError` if it is neither or too deep."""
    is_lines = PurePath(raw.name).suffix.lower() in _LINE_SUFFIXES or raw.mime_type in (
        "application/x-ndjson",
        "application/jsonl",
    )
    number = 0
    try:
        if is_lines:
            records: list[Any] = []
            for number, line in enumerate(text.split("\n"), 1):  # noqa: B007 (an error names it)
                if line.strip():
                    records.append(json.loads(line))
            return records
        return json.loads(text) if text.strip() else None
    except json.JSONDecodeError as error:
        if is_lines:
            raise IngestError(f"line {number} of {raw.name!r} is not JSON ({error}); mend it") from error
        raise IngestError(f"{raw.name!r} is not JSON ({error}); mend it, or name it .txt to take it as text") from error
    except (RecursionError, ValueError) as error:
        raise IngestError(f"{raw.name!r} is JSON that cannot be read ({error}); flatten it") from error


def records_markdown(title: str, value: Any) -> str:
    """Return records as Markdown, a section per record under its name; other JSON as a list of its fields.

    Raises:
        RecursionError: It nests too deeply.
    """
    blocks = [f"# {title}"]
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in cast("list[Any]", value)):
        for number, record in enumerate(cast("list[dict[str, Any]]", value), 1):
            known = [record[key] for key in _TITLE_KEYS if key in record]
            named = (str(item) for item in known if isinstance(item, str | int) and not isinstance(item, bool))
            name = _line(next((name for name in named if name.strip()), ""))[:_MAX_TITLE_LENGTH].rstrip()
            blocks += [f"## {name or f'Record {number}'}", *_record(record, 2)]
    elif isinstance(value, dict):
        blocks += _record(cast("dict[str, Any]", value), 1)
    else:
        blocks.append("\n".join(_items(value, 0)))
    return "\n\n".join(blocks) + "\n"


def _record(record: Mapping[str, Any], level: int) -> Iterator[str]:
    """Yield a record's short fields as one list and each long text as a paragraph, in order.

    Headings within a text are nested below the record's own, which is of this level.
    """
    lines: list[str] = []
    for key, value in record.items():
        if isinstance(value, str) and (len(value) > _PARAGRAPH_CHARACTERS or "\n" in value.strip()):
            if lines:
                yield "\n".join(lines)
            lines = []
            yield f"{_line(key)}:\n\n{nest_headings(clean_text(value).strip(), level)}"
        else:
            lines += _field(key, value, 0)
    if lines:
        yield "\n".join(lines)


def _field(key: str, value: Any, depth: int) -> Iterator[str]:
    mark = "  " * depth + "- "
    if isinstance(value, dict | list):
        if value:
            yield f"{mark}{_line(key)}:"
            yield from _items(value, depth + 1)
    elif value is not None and value != "":
        yield f"{mark}{_line(key)}: {_scalar(value)}"


def _items(value: Any, depth: int) -> Iterator[str]:
    mark = "  " * depth + "- "
    if isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield from _field(key, item, depth)
    elif isinstance(value, list):
        for number, item in enumerate(cast("list[Any]", value), 1):
            if isinstance(item, dict | list):
                yield from _field(str(number), item, depth)
            elif item is not None:
                yield mark + _scalar(item)
    else:
        yield mark + _scalar(value)


def _scalar(value: Any) -> str:
    return _line(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _line(text: str) -> str:
    return " ".join(text.split())
