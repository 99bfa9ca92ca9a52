"""Reads e-mail messages (.eml), mailboxes (.mbox), and web pages that are saved as a message (.mhtml).

A message gives sender, recipients, date and subject, then the text, then attached messages and files. Files attached to
the messages of a mailbox, which may be many, are only named.
"""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from typing import cast

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.encoding import decode_text
from heliograph.documents.markdown import clean_text, nest_headings
from heliograph.documents.registry import is_read, load_document
from heliograph.documents.scans import ScanLeftError
from heliograph.documents.web_page import html_to_markdown
from heliograph.errors import IngestError

_MESSAGE = "message/rfc822"
_TEXTS = ("text/plain", "text/html")
_SHOWN = ("From", "To", "Cc", "Date")
# A message this long without a header is no message.
_LEAST_HEADERS = ("from", "to", "subject", "date", "message-id", "received", "content-type", "mime-version")

# A line of this form separates two messages of a mailbox; in a message such a line is escaped by `>`.
_MAILBOX_SEPARATOR = re.compile(rb"\n\n+From [^\n]*\n")
_ESCAPED_FROM = re.compile(rb"(?m)^>(>*From )")


class MailLoader(Loader):
    """Messages as mail programs save them; the plain text is used if there is one, else the HTML, cleaned."""

    suffixes = frozenset({".eml"})
    mime_types = frozenset({"message/rfc822"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        if not raw.data.strip():
            return LoadedDocument(raw.name, "", "")
        message = email.message_from_bytes(raw.data, policy=email.policy.default)
        if not any(name in message for name in _LEAST_HEADERS):
            raise IngestError(f"{raw.name!r} is not an e-mail message: it has no headers; save it as .eml again")
        created_at = ""
        with suppress(ValueError, TypeError, IndexError, OverflowError):
            created_at = parsedate_to_datetime(_header(message, "Date")).isoformat()
        metadata = {
            "author": _header(message, "From"),
            "created_at": created_at,
            "recipients": _header(message, "To"),
        }
        return LoadedDocument(
            raw.name, _header(message, "Subject"), _as_markdown(message, raw.name, 1, limits), metadata
        )


class SavedPageLoader(MailLoader):
    """Web pages that browsers save in one file: a message whose text is the page."""

    suffixes = frozenset({".mhtml", ".mht"})
    mime_types = frozenset({"multipart/related", "application/x-mimearchive"})

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:
        message = email.message_from_bytes(raw.data, policy=email.policy.default)
        page = next((part for part in message.walk() if part.get_content_type() == "text/html"), None)
        data = None if page is None else page.get_payload(decode=True)
        if page is None or not isinstance(data, bytes):
            return super().load(raw, limits)
        saved = RawDocument(raw.name, data, "text/html", page.get_content_charset() or "")
        loaded = load_document(saved, limits)
        return replace(loaded, title=loaded.title or _header(message, "Subject"))


class MailboxLoader(Loader):
    """Mailboxes, as mail programs and list archives export them: a section per message, in order."""

    suffixes = frozenset({".mbox"})
    mime_types = frozenset({"application/mbox"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
        if not raw.data.strip():
            return LoadedDocument(raw.name, "", "")
        before, *pieces = _MAILBOX_SEPARATOR.split(b"\n\n" + raw.data.replace(b"\r\n", b"\n").lstrip(b"\n"))
        if before.strip():
            raise IngestError(f"{raw.name!r} is not a mailbox: its start is not 'From '; export it as .mbox")
        sections: list[str] = []
        for piece in pieces:
            piece = _ESCAPED_FROM.sub(rb"\1", piece)
            try:
                message = email.message_from_bytes(piece, policy=email.policy.default)
                sections.append(_as_markdown(message, raw.name, 2))
            except (IngestError, RecursionError):
                # One broken message does not lose the others.
                message = email.message_from_bytes(piece.partition(b"\n\n")[0], policy=email.policy.default)
                subject = _header(message, "Subject") or _header(message, "From") or "Message"
                sections.append(f"## {subject}\n\n(This message is broken and was not read.)\n")
        return LoadedDocument(raw.name, "", "\n".join(sections), {"message_count": len(sections)})


def _as_markdown(message: EmailMessage, name: str, level: int, limits: Limits | None = None) -> str:
    """Return a message as a section of this level; attached files are read if `limits` is given."""
    # In a mailbox every message is a section, even without a subject.
    subject = _header(message, "Subject") or (_header(message, "From") if level > 1 else "")
    lines = [f"{header}: {value}" for header in _SHOWN if (value := _header(message, header))]
    parts = list(_parts(message, name))
    files = [part for part in parts if part.get_filename() and part.get_content_type() != _MESSAGE]
    attachments = [f"- {_filename(part)} ({part.get_content_type()})" for part in files]
    texts = [
        text
        for part in parts
        if part.get_content_type() != _MESSAGE and not part.get_filename() and (text := _text(part, name).strip())
    ]
    blocks = [
        f"{'#' * level} {subject}" if subject else "",
        "\n".join(lines),
        *texts,
        "\n".join(["Attachments:", "", *attachments]) if attachments else "",
        *(_attached(part, level + 1, limits) for part in files if limits is not None),
        *(
            _as_markdown(cast("EmailMessage", inner), name, min(6, level + 1), limits).strip()
            for part in parts
            if part.get_content_type() == _MESSAGE
            for inner in part.iter_parts()
        ),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _parts(message: EmailMessage, name: str) -> Iterator[EmailMessage]:
    """Yield the displayed texts and the attachments of a message, in order.

    Of alternatives the plain text is used if there is one, else the HTML.

    Raises:
        IngestError: The parts are broken.
    """
    if not message.is_multipart() or message.get_content_type() == _MESSAGE:
        if message.get_filename() or message.get_content_type() in (_MESSAGE, *_TEXTS):
            yield message
        return
    try:
        parts = [cast("EmailMessage", part) for part in message.iter_parts()]
    except (AttributeError, ValueError, LookupError) as error:
        raise IngestError(f"{name!r} is a message whose parts are broken ({error}); save it again") from error
    found = [list(_parts(part, name)) for part in parts]
    if message.get_content_type() == "multipart/alternative":
        said = [
            shown for shown in found if any(not part.get_filename() and _text(part, name).strip() for part in shown)
        ]
        plain = (shown for shown in said if all(part.get_content_type() != "text/html" for part in shown))
        chosen = next(plain, said[-1] if said else [])
        # A file attached to one alternative belongs to all of them.
        found = [shown if shown is chosen else [part for part in shown if part.get_filename()] for shown in found]
    for shown in found:
        yield from shown


def _text(part: EmailMessage, name: str) -> str:
    data = part.get_payload(decode=True)
    text = decode_text(data, name, part.get_content_charset() or "") if isinstance(data, bytes) else ""
    return html_to_markdown(text) if part.get_content_type() == "text/html" else text


def _attached(part: EmailMessage, level: int, limits: Limits) -> str:
    """Return an attached file as a section; empty if it cannot be read or is a picture, which may be a mere logo."""
    file, data = _filename(part), part.get_payload(decode=True)
    if not isinstance(data, bytes) or not is_read(file):
        return ""
    try:
        loaded = load_document(RawDocument(file, data, part.get_content_type()), limits)
    except ScanLeftError:
        raise
    except Exception:  # noqa: BLE001 (the message is worth having without a file that is broken, and names it)
        return ""
    text = loaded.text.strip()
    return f"{'#' * min(6, level)} {file}\n\n{nest_headings(text, level)}" if text else ""


def _filename(part: EmailMessage) -> str:
    return " ".join(clean_text(part.get_filename() or "").split())


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = str(message.get(name, ""))
    except (ValueError, LookupError, IndexError, AttributeError, TypeError):
        # The standard library's parser fails on some malformed headers.
        value = next((str(text) for key, text in message.raw_items() if key.lower() == name.lower()), "")
    return " ".join(clean_text(value).split())
