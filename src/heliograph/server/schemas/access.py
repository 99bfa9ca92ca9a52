"""What the ways in and out reply; names and values are those that LightRAG's page and clients read."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class _About(BaseModel):
    message: str = Field(default="", description="In words.")
    core_version: str = Field(description="Version of Heliograph.")
    api_version: str = Field(description="Version of the interface, as LightRAG counts it.")
    webui_title: str = Field(default="Heliograph", description="Title of the page.")
    webui_description: str = Field(default="", description="Below the title.")


class AuthStatus(_About):
    """Whether people log in here."""

    auth_configured: bool = Field(description="Whether there are accounts.")
    access_token: str | None = Field(default=None, description="A guest's token where there are none.")
    token_type: Literal["bearer"] | None = Field(default=None, description="Its type.")
    auth_mode: Literal["enabled", "disabled"] = Field(description="The same in a word.")


class LoginReply(_About):
    """A token."""

    access_token: str = Field(description="Goes into `Authorization: Bearer`.")
    token_type: Literal["bearer"] = Field(default="bearer", description="Its type.")
    auth_mode: Literal["enabled", "disabled"] = Field(description="`disabled` for a guest's token.")


class VerifyReply(BaseModel):
    """Whose credentials these are."""

    status: Literal["ok"] = "ok"
    valid: Literal[True] = True
    username: str = Field(description="Name of the account or key; `anyone` where nobody needs any.")
    role: Literal["read", "write", "admin"] = Field(description="What it allows.")
    workspaces: list[str] | None = Field(description="Where; null means everywhere.")


class LogoutReply(BaseModel):
    """Done."""

    status: Literal["success"] = "success"
    message: str
