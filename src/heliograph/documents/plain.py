"""Plain text and Markdown: decoded, and for Markdown the front matter read into metadata."""

from __future__ import annotations

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.cleaning import clean_text
from heliograph.documents.encoding import decode_text
from heliograph.documents.markdown import find_title, split_front_matter

__all__ = ["MarkdownLoader", "TextLoader"]


class MarkdownLoader(Loader):
    """Markdown: the fields of its front matter are metadata, `title` among them the title."""

    suffixes = frozenset({".md", ".markdown", ".mdown", ".mkd", ".mdx"})
    mime_types = frozenset({"text/markdown", "text/x-markdown"})

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        """See `Loader.load`."""
        text = clean_text(decode_text(raw.data, raw.name, raw.charset))
        fields, body = split_front_matter(text)
        title = fields.pop("title", "")
        if not isinstance(title, str) or not title:
            title = find_title(body)
        return LoadedDocument(source=raw.name, title=title, text=body, metadata=fields)


class TextLoader(MarkdownLoader):
    """Plain text, which may well be Markdown under another name and is read like it."""

    suffixes = frozenset({".txt", ".text", ".log", ".rst", ".adoc", ".org", ".tex", ".srt", ".vtt"})
    mime_types = frozenset({"text/plain", "text/x-rst"})
