"""Where Qdrant is: `qdrant://[:api-key@]host[:port]`, `qdrants://` by TLS, `qdrant:///folder` or `qdrant::memory:`.

The last two are the client's local mode, without a server and for one process. Options after a `?`: `prefix` goes
before the names of collections, `on_disk=true` keeps vectors on disk, `quantization=int8` searches by 8-bit vectors
that are kept in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from heliograph.errors import SettingsError

_OPTIONS = {"prefix", "on_disk", "quantization"}


@dataclass(frozen=True, slots=True, repr=False)
class QdrantAddress:
    """Where a Qdrant is and how it is to keep things.

    Attributes:
        url: Of the server; empty in local mode.
        path: Folder of the local mode, or `:memory:`; empty with a server.
        api_key: Of the server; empty for none.
        prefix: Goes before the names of collections.
        on_disk: Whether vectors are kept on disk.
        is_quantized: Whether 8-bit vectors are kept in memory for search.
    """

    url: str = ""
    path: str = ""
    api_key: str = ""
    prefix: str = ""
    on_disk: bool = False
    is_quantized: bool = False

    @classmethod
    def parse(cls, url: str) -> QdrantAddress:
        """Read an address.

        Raises:
            SettingsError: It is none; never repeats the key.
        """
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query, keep_blank_values=True))
        if unknown := sorted(set(options) - _OPTIONS):
            raise SettingsError(
                f"the Qdrant address has unknown options {unknown}; known: {', '.join(sorted(_OPTIONS))}"
            )
        if options.get("quantization", "int8") != "int8":
            raise SettingsError(f"quantization is {options['quantization']!r} in the Qdrant address; int8 is known")
        found = cls(
            prefix=options.get("prefix", ""),
            on_disk=options.get("on_disk", "").lower() == "true",
            is_quantized="quantization" in options,
        )
        if parts.path == ":memory:":
            return replace(found, path=parts.path)
        if parts.hostname:
            return replace(found, url=_server_url(parts), api_key=unquote(parts.password or ""))
        if not parts.path.strip("/"):
            raise SettingsError("the Qdrant address names neither host nor folder; write qdrant://host:6333")
        return replace(found, path=unquote(parts.path))

    def __repr__(self) -> str:
        return f"QdrantAddress({self.url or self.path})"


def _server_url(parts: SplitResult) -> str:
    scheme = "https" if parts.scheme == "qdrants" else "http"
    host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
    try:
        return f"{scheme}://{host}:{parts.port or 6333}"
    except ValueError:
        raise SettingsError("the port in the Qdrant address is no number; write qdrant://host:6333") from None
