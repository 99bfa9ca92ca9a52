"""Markdown: the documents' texts and the graph as pages; and the same as a vault of linked notes for Obsidian.

A vault has a note per entity and per document. Notes of entities link to their neighbours and to the documents that
speak of them, so that the graph view of the editor shows the graph.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from heliograph.maintenance.export.contents import Contents
from heliograph.maintenance.export.file_names import FileNames
from heliograph.models import FIELD_SEPARATOR, Document, Entity

__all__ = ["export_markdown", "export_vault"]

_MAX_RELATIONS = 500
_LINK_SIGNS = re.compile(r"[|\[\]\s]+")


async def export_markdown(contents: Contents, folder: Path) -> int:
    """Write `documents/*.md`, `entities.md` and `relations.md` into a new folder; return how many things there are."""
    (folder / "documents").mkdir(parents=True)
    names, count = FileNames(), 0
    async for whole in contents.documents():
        _write(folder / "documents" / f"{_document_name(names, whole.document)}.md", whole.text or "")
        count += 1
    with (folder / "entities.md").open("x", encoding="utf-8", errors="backslashreplace") as file:
        file.write("# Entities\n")
        async for entity in contents.entities():
            sources = ", ".join(await contents.sources(entity.chunk_ids))
            aliases = f"Also: {', '.join(entity.aliases)}\n\n" if entity.aliases else ""
            file.write(f"\n## {entity.name}\n\nType: {entity.type}\n\n{aliases}{_prose(entity.description)}\n")
            file.write(f"\nSources: {sources}\n")
            count += 1
    with (folder / "relations.md").open("x", encoding="utf-8", errors="backslashreplace") as file:
        file.write("# Relations\n")
        async for relation in contents.relations():
            sources = ", ".join(await contents.sources(relation.chunk_ids))
            keywords = f"Keywords: {', '.join(relation.keywords)}\n\n" if relation.keywords else ""
            file.write(f"\n## {relation.source} - {relation.target}\n\n{keywords}{_prose(relation.description)}\n")
            file.write(f"\nWeight: {relation.weight:g}. Sources: {sources}\n")
            count += 1
    return count


async def export_vault(contents: Contents, folder: Path) -> int:
    """Write a vault into a new folder; return how many notes it has."""
    for part in ("entities", "documents"):
        (folder / part).mkdir(parents=True)
    names, documents, count = FileNames(), dict[str, str](), 0
    async for whole in contents.documents():
        name = documents[whole.document.source] = _document_name(names, whole.document)
        front = _front({**whole.document.metadata, "source": whole.document.source, "id": whole.document.id})
        _write(folder / "documents" / f"{name}.md", f"{front}\n{whole.text or ''}\n")
        count += 1
    async for entity in contents.entities():
        note = await _entity_note(contents, entity, names, documents)
        _write(folder / "entities" / f"{names.name(entity.id, entity.name)}.md", note)
        count += 1
    return count


async def _entity_note(contents: Contents, entity: Entity, names: FileNames, documents: dict[str, str]) -> str:
    front = _front({"type": entity.type, "aliases": list(entity.aliases), "id": entity.id})
    lines = [front, f"# {entity.name}", "", _prose(entity.description)]
    relations = (await contents.relations_of(entity.id))[:_MAX_RELATIONS]
    if relations:
        lines += ["", "## Relations", ""]
    for relation in relations:
        is_source = relation.source_id == entity.id
        other_id, other = (relation.target_id, relation.target) if is_source else (relation.source_id, relation.source)
        said = " ".join(_prose(relation.description).split())
        lines.append(f"- [[{names.name(other_id, other)}|{_LINK_SIGNS.sub(' ', other)}]]: {said}")
    found = [documents[source] for source in await contents.sources(entity.chunk_ids) if source in documents]
    if found:
        lines += ["", "## Documents", "", *(f"- [[{name}]]" for name in found)]
    return "\n".join(lines) + "\n"


def _document_name(names: FileNames, document: Document) -> str:
    return names.name(document.id, document.title or document.source)


def _front(fields: dict[str, object]) -> str:
    # JSON is YAML, and quotes what YAML would misread.
    lines = [f"{json.dumps(str(name))}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    return "\n".join(("---", *lines, "---"))


def _prose(description: str) -> str:
    return "\n\n".join(part.strip() for part in description.split(FIELD_SEPARATOR))


def _write(path: Path, text: str) -> None:
    path.write_text(text, "utf-8", errors="backslashreplace", newline="\n")
