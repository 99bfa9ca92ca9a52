"""Who asks: turns credentials into principals, lets people in and out, and counts how often they try.

Without keys and accounts the service is open: everybody is `ANYONE`. With keys alone nobody logs in. What a principal
may do is read from the settings at each use.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from heliograph.errors import AuthenticationError, OverloadedError, PermissionDenied, StoreUnavailable
from heliograph.service.access.accounts import Accounts
from heliograph.service.access.keys import KeyRing
from heliograph.service.access.ledger import Ledger
from heliograph.service.access.secret import make_private_folder, signing_key
from heliograph.service.access.tokens import GUEST, Claims, TokenSigner, looks_like_token
from heliograph.service.principal import ANYONE, Principal
from heliograph.settings import Settings

_FOLDER = ".service"
_FILE = "access.db"
_MINUTE_SECONDS = 60.0
# So many addresses may fail to log in under one name: with fewer, one of them could lock out whose name it is.
_ADDRESSES_OF_A_NAME = 10


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """What a request brought: a key, or a bearer token that is a key or was got by logging in; empty means none."""

    key: str = ""
    bearer: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a request comes from.

    Attributes:
        principal: Who, and what that allows.
        claims: Of the token, if it was one.
        new_token: A token to go on with, when the one used is past half its life.
    """

    principal: Principal
    claims: Claims | None = None
    new_token: str | None = None

    def __repr__(self) -> str:
        return f"Identity({self.principal!r})"


def has_credentials(settings: Settings) -> bool:
    """Whether anything is asked of who asks."""
    server = settings.server
    return bool(server.api_key.get_secret_value() or server.keys or server.accounts)


class Access:
    """What faces ask before they do anything.

    Args:
        settings: Keys, accounts and limits are those of `settings.server`.
        clock: Tells seconds since the epoch.

    Raises:
        SettingsError: A key or an account is not valid.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings.server
        self._folder = settings.store.data_dir / _FOLDER
        self._clock = clock
        self._keys = KeyRing(settings.server)
        self._accounts = Accounts(settings.server.accounts)
        self._opened: tuple[TokenSigner, Ledger] | None = None

    @property
    def is_open(self) -> bool:
        """Whether no credentials are configured, so that everybody may do everything."""
        return not self._keys and not self._accounts

    @property
    def has_accounts(self) -> bool:
        """Whether people can log in."""
        return bool(self._accounts)

    async def open(self) -> Self:
        """Open what the processes of the service share.

        Raises:
            SettingsError: The secret of the settings is too short.
            StoreUnavailable: The folder `.service` of the data folder cannot be used.
        """
        if self._opened is None:
            self._opened = await asyncio.to_thread(self._open)
        return self

    async def close(self) -> None:
        """Close it; closing twice does nothing."""
        if self._opened is not None:
            opened, self._opened = self._opened, None
            await asyncio.to_thread(opened[1].close)

    def identify(self, credentials: Credentials, address: str = "") -> Identity:
        """Return who asks, from which address.

        Raises:
            AuthenticationError: There are no credentials and people can log in; or the token is not good.
            PermissionDenied: There is no key, or it is wrong, and nobody can log in.
        """
        if self.is_open:
            return Identity(replace(ANYONE, address=address))
        for key in (credentials.key, credentials.bearer):
            if key and (principal := self._keys.find(key)):
                return Identity(principal)
        if credentials.bearer:
            try:
                return self._identify_token(credentials.bearer)
            except AuthenticationError:
                if self.has_accounts:
                    raise
        raise self._refusal(credentials)

    async def log_in(self, name: str, password: str, address: str) -> str:
        """Return a token for who knows a password.

        Args:
            name: Of the account.
            password: Its password.
            address: Where the attempt comes from.

        Raises:
            AuthenticationError: Name or password is wrong.
            OverloadedError: This address has failed too often, or many have under this name.
        """
        most = self._settings.login_attempts
        subjects = {f"login name {name.casefold()}": most * _ADDRESSES_OF_A_NAME, f"login address {address}": most}
        wait = await self._ledger.attempt(subjects, self._settings.login_window_seconds)
        if wait > 0:
            raise OverloadedError("too many failed logins; try again later", wait)
        principal = await self._accounts.check(name, password)
        if principal is None:
            raise AuthenticationError("the name or the password is wrong")
        await self._ledger.forget(subjects)
        return self._tokens.issue(principal.name, self._accounts.password_hash(name) or "")

    def guest_token(self) -> str:
        """Return a token for a service that is open; it allows nothing in one that is not."""
        return self._tokens.issue(GUEST, "")

    async def log_out(self, bearer: str) -> None:
        """End the session of a token, with all tokens renewed from it, for good and in all processes.

        Raises:
            AuthenticationError: The token is not good, so there is nothing to end.
        """
        claims = self._tokens.read(bearer)
        await self._ledger.end_session(claims.session, self._clock() + self._tokens.longest_seconds)

    async def count_query(self, principal: Principal) -> None:
        """Count a question; nothing is counted without a limit.

        Raises:
            OverloadedError: This client has asked too often in the last minute.
        """
        most = self._settings.queries_per_minute
        if most:
            wait = await self._ledger.attempt({f"query {principal.client}": most}, _MINUTE_SECONDS)
            if wait > 0:
                raise OverloadedError(f"more than {most} questions in a minute; try again later", wait)

    @property
    def _tokens(self) -> TokenSigner:
        return self._open_or_fail()[0]

    @property
    def _ledger(self) -> Ledger:
        return self._open_or_fail()[1]

    def _open_or_fail(self) -> tuple[TokenSigner, Ledger]:
        if self._opened is None:
            raise StoreUnavailable("the service is closed; it takes no requests any more")
        return self._opened

    def _open(self) -> tuple[TokenSigner, Ledger]:
        make_private_folder(self._folder)
        key = signing_key(self._settings.token_secret.get_secret_value(), self._folder)
        return TokenSigner(key, self._settings.token_hours, self._clock), Ledger(self._folder / _FILE, self._clock)

    def _identify_token(self, token: str) -> Identity:
        claims = self._tokens.read(token)
        principal = self._accounts.find(claims.name)
        password_hash = self._accounts.password_hash(claims.name) or ""
        is_good = principal is not None and claims.password_mark == self._tokens.password_mark(password_hash)
        if principal is None or not is_good or self._ledger.is_ended(claims.session):
            raise AuthenticationError("the token is not valid, has expired or was revoked; log in again")
        is_old = claims.is_past_half(self._clock())
        return Identity(
            principal, claims, self._tokens.issue(claims.name, password_hash, claims.session) if is_old else None
        )

    def _refusal(self, credentials: Credentials) -> AuthenticationError | PermissionDenied:
        # These words are what LightRAG's page looks for; a token of a guest is no try at a key.
        if credentials.key or (credentials.bearer and not looks_like_token(credentials.bearer)):
            return PermissionDenied("Invalid API Key")
        if self.has_accounts:
            return AuthenticationError("No credentials provided. Please login.")
        return PermissionDenied("API Key required")
