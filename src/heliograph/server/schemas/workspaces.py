"""What the routes of workspaces take and reply: names, lists and counts."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

_NAME = r"^[\w][\w.\-]{0,63}$"


class NewWorkspace(BaseModel):
    """A workspace to make."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"name": "research"}]})

    name: str = Field(pattern=_NAME, description="Letters, digits, `_`, `.` and `-`, at most 64.")


class WorkspaceRow(BaseModel):
    """One workspace."""

    name: str
    is_default: bool = Field(description="Whether requests that name none go there.")


class WorkspaceList(BaseModel):
    """The workspaces that the credentials may enter."""

    workspaces: list[WorkspaceRow]
    default: str


class WorkspaceReply(BaseModel):
    """What was done."""

    status: Literal["success"] = "success"
    message: str
    name: str


class WorkspaceStats(BaseModel):
    """What a workspace holds."""

    name: str
    documents: dict[str, int] = Field(description="Documents by status; those that none has are left out.")
    chunks: int
    entities: int
    relations: int
    cached_replies: int = Field(description="Replies of models that are kept.")
    data_version: int = Field(description="Rises with every commit.")
    bytes_on_disk: int
