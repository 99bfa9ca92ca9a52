"""The ways in and out: log in with a password, see whether a token is good, log out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request

from heliograph._version import __version__
from heliograph.errors import AuthenticationError, InvalidRequestError
from heliograph.server.dependencies import CurrentPrincipal, CurrentService
from heliograph.server.openapi import responses
from heliograph.server.requests import address_of, credentials_of
from heliograph.service.access import looks_like_token
from heliograph.wire.service import AuthStatus, LoginReply, LogoutReply, VerifyReply

router = APIRouter(tags=["access"])

# The version of LightRAG's interface that is served.
API_VERSION = "0344"
_OPEN = "Nobody logs in here; everybody is a guest."
_KEY_ONLY = "Nobody logs in here; a key is needed."
_MAX_NAME = 256
_MAX_PASSWORD = 1024
_LOGIN_EXAMPLE = {"username": "hester", "password": "lamp oil", "grant_type": "password"}
_LOGIN_FORM = {"requestBody": {"content": {"application/x-www-form-urlencoded": {"example": _LOGIN_EXAMPLE}}}}


@router.get("/auth-status", response_model_exclude_none=True, summary="Whether people log in")
async def auth_status(service: CurrentService) -> AuthStatus:
    """Say whether there are accounts; where there are none, with a guest's token for pages that want one."""
    if service.access.has_accounts:
        return AuthStatus(core_version=__version__, api_version=API_VERSION, auth_configured=True, auth_mode="enabled")
    return AuthStatus(
        core_version=__version__,
        api_version=API_VERSION,
        auth_configured=False,
        auth_mode="disabled",
        access_token=service.access.guest_token(),
        token_type="bearer",  # noqa: S106 (a type)
        message=_OPEN if service.access.is_open else _KEY_ONLY,
    )


@router.post("/login", summary="Log in", responses=responses(401, 429), openapi_extra=_LOGIN_FORM)
async def log_in(
    request: Request,
    service: CurrentService,
    username: Annotated[str, Form(max_length=_MAX_NAME, description="Name of the account.")],
    password: Annotated[str, Form(max_length=_MAX_PASSWORD, description="Its password.")],
    grant_type: Annotated[str, Form(pattern="^password$", description="Always `password`.")] = "password",  # noqa: ARG001
) -> LoginReply:
    """Return a token for a name and its password; a guest's token where there are no accounts."""
    if service.access.has_accounts:
        token = await service.access.log_in(username, password, address_of(request))
        message = "Login successful"
    else:
        token = service.access.guest_token()
        message = _OPEN if service.access.is_open else _KEY_ONLY
    return LoginReply(
        core_version=__version__,
        api_version=API_VERSION,
        access_token=token,
        auth_mode="enabled" if service.access.has_accounts else "disabled",
        message=message,
    )


@router.get("/auth/verify", summary="Whose credentials these are")
async def verify(principal: CurrentPrincipal) -> VerifyReply:
    """Say who the credentials of this request stand for, and what they allow."""
    workspaces = None if principal.workspaces is None else sorted(principal.workspaces)
    return VerifyReply(username=principal.name, role=principal.role.value, workspaces=workspaces)


@router.post("/logout", summary="Log out", responses=responses(400, 401))
async def log_out(request: Request, service: CurrentService, _: CurrentPrincipal) -> LogoutReply:
    """End the session of the token in `Authorization`, with every token renewed from it, for good."""
    bearer = credentials_of(request).bearer
    if not looks_like_token(bearer):
        raise InvalidRequestError("only a token can be given back; send it as `Authorization: Bearer`")
    try:
        await service.access.log_out(bearer)
    except AuthenticationError:
        if not service.access.is_open:
            raise
    return LogoutReply(message="logged out")
