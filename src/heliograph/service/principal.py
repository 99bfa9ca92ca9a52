"""Who asks, and what that allows: a role, in some workspaces or all; which paths messages may show.

Roles include one another: `admin` may do what `write` may, and `write` what `read` may.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import PurePath

from heliograph.errors import PermissionDenied

# In quotes, where anything may stand in it, or as far as a word goes.
_PATH = re.compile(
    r"""(?P<quote>['"])(?P<quoted>/(?:(?!(?P=quote)).)*)(?P=quote)|(?<![\w.:/~-])/[^\s'"`,;()<>\[\]{}]+"""
)


class Role(StrEnum):
    """What credentials allow: to ask, to change documents and graph, to manage workspaces and caches."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Whether who has this role may do what the other one allows."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks.

    Attributes:
        name: Of the key or account, for logs and as the author of curations.
        role: What it allows.
        workspaces: Where; None means everywhere.
        address: Where the request comes from, if nobody is asked who he is; empty elsewhere.
    """

    name: str
    role: Role
    workspaces: frozenset[str] | None = None
    address: str = ""

    @property
    def client(self) -> str:
        """Whose share is used of what clients share: the key's or account's, or the address's where all are one."""
        return f"{self.name} {self.address}".rstrip()

    @property
    def is_operator(self) -> bool:
        """Whether this is an admin of all workspaces, as everybody is where no credentials are configured."""
        return self.role is Role.ADMIN and self.workspaces is None

    def may_enter(self, workspace: str) -> bool:
        """Whether anything is allowed in this workspace."""
        return self.workspaces is None or workspace in self.workspaces

    def may_create(self, workspace: str) -> bool:
        """Whether a workspace may be made by writing into it: by an admin, or by who is bound to it by name."""
        return self.may_enter(workspace) and (self.role is Role.ADMIN or self.workspaces is not None)

    def require(self, role: Role, workspace: str | None = None) -> None:
        """Check that this role is held, in this workspace if one is given.

        Raises:
            PermissionDenied: It is not.
        """
        if workspace is not None and not self.may_enter(workspace):
            raise PermissionDenied(f"{self.name!r} may not enter the workspace {workspace!r}; use other credentials")
        if not self.role.includes(role):
            raise PermissionDenied(f"{self.name!r} has the role {self.role}, and this needs {role}")


# Who asks a service that has no credentials configured.
ANYONE = Principal("anyone", Role.ADMIN)


def as_told(message: str, principal: Principal | None) -> str:
    """Return a message as somebody may read it; where things lie on the machine is for its operator alone.

    Args:
        message: Any message.
        principal: Who reads it; None is not known.
    """
    return message if principal is not None and principal.is_operator else without_folders(message)


def without_folders(message: str) -> str:
    """Return a message with the name alone of every file and folder whose absolute path it gives."""

    def shorten(found: re.Match[str]) -> str:
        path, quote = found["quoted"] or found[0], found["quote"] or ""
        # Others, such as those of requests, are no paths of this machine.
        is_here = path.split("/")[1] in _top_folders()
        return f"{quote}{PurePath(path).name}{quote}" if is_here else found[0]

    return _PATH.sub(shorten, message)


@cache
def _top_folders() -> frozenset[str]:
    return frozenset(os.listdir("/"))  # noqa: PTH208 (names are what is wanted)
