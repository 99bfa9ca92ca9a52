"""Where Neo4j is: `neo4j://[user[:password]@]host[:port][/database]`, or `bolt://`; `+s` after the scheme is TLS.

`neo4j` asks the server for the others of its cluster, `bolt` speaks to this one only. What follows a `?` goes to the
server, which chooses others by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from heliograph.errors import SettingsError

_PORT = 7687


@dataclass(frozen=True, slots=True, repr=False)
class Neo4jAddress:
    """Where a Neo4j is, and who asks.

    Attributes:
        url: As the driver takes it; no secrets.
        where: Host, port and database, for messages; no secrets.
        user: Who asks; empty where nobody need say.
        password: Of the user.
        database: Name of the database; empty is the server's default.
    """

    url: str
    where: str
    user: str
    password: str
    database: str

    @classmethod
    def parse(cls, url: str) -> Neo4jAddress:
        """Read an address.

        Raises:
            SettingsError: It is none; never repeats the password.
        """
        parts = urlsplit(url)
        try:
            port = parts.port or _PORT
        except ValueError:
            port = 0
        database = unquote(parts.path.strip("/"))
        if not parts.hostname or not port or "/" in database:
            raise SettingsError(
                "store.graph_url is no address of Neo4j; write neo4j://user:password@host:7687/database"
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        query = f"?{parts.query}" if parts.query else ""
        return cls(
            *(f"{parts.scheme}://{host}:{port}{query}", f"{host}:{port}{'/' + database if database else ''}"),
            *(unquote(parts.username or ""), unquote(parts.password or ""), database),
        )

    def __repr__(self) -> str:
        return f"Neo4jAddress({self.where})"
