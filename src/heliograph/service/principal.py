"""Who asks, and what that allows: a role, in some workspaces or all.

Roles include one another: `admin` may do what `write` may, and `write` what `read` may.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from heliograph.errors import PermissionDenied

__all__ = ["ANYONE", "Principal", "Role"]


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
