"""Where a store is: the address of its server as the driver takes it, and as people may read it."""

from __future__ import annotations

from dataclasses import dataclass, field

from heliograph.errors import SettingsError
from heliograph.stores.postgres.driver import conninfo_to_dict, make_conninfo, psycopg

# A machine or a network that is gone is noticed within half a minute, not after the system's quarter of an hour.
_KEEPALIVES = {"keepalives_idle": 15, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}


@dataclass(frozen=True, slots=True)
class Address:
    """An address.

    Attributes:
        conninfo: For the driver; may hold a password and is in no repr.
        label: `postgresql://user@host:port/database`, for messages.
    """

    conninfo: str = field(repr=False)
    label: str


def parse_address(url: str, setting: str = "store.url") -> Address:
    """Read the address of a server.

    Args:
        url: `postgresql://user:password@host:port/database?option=value`; `postgres://` means the same. What it leaves
            out comes from libpq's own environment variables and files.
        setting: Which setting it is, for errors.

    Raises:
        SettingsError: It is none. What is wrong is not quoted, since a password may stand in it.
    """
    try:
        parts = conninfo_to_dict(url)
        conninfo = make_conninfo("", **(_KEEPALIVES | parts))
    except psycopg.Error:
        raise SettingsError(
            f"{setting} is no address of PostgreSQL; write postgresql://user:password@host:port/database, with "
            "characters such as @ / : # % in the password as %40 %2F %3A %23 %25"
        ) from None
    user = f"{parts['user']}@" if parts.get("user") else ""
    port = f":{parts['port']}" if parts.get("port") else ""
    host = str(parts.get("host") or "")
    return Address(conninfo, f"postgresql://{user}{host}{port}/{parts.get('dbname') or ''}")
