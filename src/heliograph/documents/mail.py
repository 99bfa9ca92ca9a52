"""E-mail messages (.eml) and mailboxes (.mbox): who, when and about what, then the text; attachments by name."""

from __future__ import annotations

import email
import email.policy
import re
from contextlib import suppress
from email.message import EmailMessage
from email.utils import parsedate_to_datetime

from heliograph.documents.base import Limits, LoadedDocument, Loader, RawDocument
from heliograph.documents.encoding import decode_text
from heliograph.documents.markdown import clean_text
from heliograph.documents.web_page import html_to_markdown
from heliograph.errors import IngestError

_SHOWN = ("From", "To", "Cc", "Date")
# A message this long without a header is no message.
_LEAST_HEADERS = ("from", "to", "subject", "date", "message-id", "received", "content-type", "mime-version")

# A line of this form parts two messages of a mailbox; in a message such a line is escaped by `>`.
_MAILBOX_SEPARATOR = re.compile(rb"\n\n+From [^\n]*\n")
_ESCAPED_FROM = re.compile(rb"(?m)^>(>*From )")


class MailLoader(Loader):
    """Messages as mail programs save them; the plain text is taken where there is one, else the HTML, cleaned."""

    suffixes = frozenset({".eml"})
    mime_types = frozenset({"message/rfc822"})
    runs_isolated = True

    def load(self, raw: RawDocument, limits: Limits) -> LoadedDocument:  # noqa: ARG002 (lengths are checked for all)
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
        return LoadedDocument(raw.name, _header(message, "Subject"), _as_markdown(message, raw.name, 1), metadata)


class MailboxLoader(Loader):
    """Mailboxes, as mail programs and archives of lists export them: a section for each message, in their order."""

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
            message = email.message_from_bytes(_ESCAPED_FROM.sub(rb"\1", piece), policy=email.policy.default)
            try:
                sections.append(_as_markdown(message, raw.name, 2))
            except IngestError:
                # The others are not lost for one.
                subject = _header(message, "Subject") or _header(message, "From") or "Message"
                sections.append(f"## {subject}\n\n(This message is broken and was not read.)\n")
        return LoadedDocument(raw.name, "", "\n".join(sections), {"message_count": len(sections)})


def _as_markdown(message: EmailMessage, name: str, level: int) -> str:
    # In a mailbox every message is a section, also one without a subject.
    subject = _header(message, "Subject") or (_header(message, "From") if level > 1 else "")
    lines = [f"{header}: {value}" for header in _SHOWN if (value := _header(message, header))]
    attachments = [
        f"- {' '.join(clean_text(file).split())} ({part.get_content_type()})"
        for part in message.walk()
        if (file := part.get_filename())
    ]
    blocks = [
        f"{'#' * level} {subject}" if subject else "",
        "\n".join(lines),
        _body(message, name).strip(),
        "\n".join(["Attachments:", "", *attachments]) if attachments else "",
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = str(message.get(name, ""))
    except (ValueError, LookupError, IndexError, AttributeError, TypeError):
        # The parser of the standard library trips over some malformed headers.
        value = next((str(text) for key, text in message.raw_items() if key.lower() == name.lower()), "")
    return " ".join(clean_text(value).split())


def _body(message: EmailMessage, name: str) -> str:
    for kind in ("plain", "html"):
        try:
            part = message.get_body((kind,))
        except (AttributeError, ValueError, LookupError) as error:
            raise IngestError(f"{name!r} is a message whose parts are broken ({error}); save it again") from error
        if part is not None:
            data = part.get_payload(decode=True)
            text = decode_text(data, name, part.get_content_charset() or "") if isinstance(data, bytes) else ""
            if text.strip():
                return html_to_markdown(text) if kind == "html" else text
    return ""
