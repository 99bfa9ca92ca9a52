"""Authentication and authorisation: roles and workspaces; keys, accounts and their tokens, and rate limits.

Roles include one another: `admin` may do what `write` may, and `write` what `read` may.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Self

import jwt
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher
from pwdlib.hashers.bcrypt import BcryptHasher

import heliograph.errors as errors
from heliograph.settings import AccountSettings, KeySettings, ServerSettings, Settings
from heliograph.stores.sql import SmallFile

# Principals: who sends a request, and what that allows.


class Role(StrEnum):
    """What credentials allow: to query, to change documents and graph, to manage workspaces and caches."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """Whether this role includes the other one."""
        order = list(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, slots=True)
class Principal:
    """Who sends a request.

    Attributes:
        name: Name of the key or account, for logs and as the author of curations.
        workspaces: Workspaces that may be entered; None means all.
        address: Where the request comes from, if the service asks for no credentials; empty otherwise.
    """

    name: str
    role: Role
    workspaces: frozenset[str] | None = None
    address: str = ""

    @property
    def client(self) -> str:
        """The client whose share of common limits is used: the key or account, or the address if all have one name."""
        return f"{self.name} {self.address}".rstrip()

    @property
    def is_operator(self) -> bool:
        """Whether this is an admin of all workspaces, as every caller is where no credentials are configured."""
        return self.role is Role.ADMIN and self.workspaces is None

    def may_enter(self, workspace: str) -> bool:
        """Whether anything is allowed in this workspace."""
        return self.workspaces is None or workspace in self.workspaces

    def may_create(self, workspace: str) -> bool:
        """Whether this principal may create a workspace by writing into it: an admin, or one bound to it by name."""
        return self.may_enter(workspace) and (self.role is Role.ADMIN or self.workspaces is not None)

    def require(self, role: Role, workspace: str | None = None) -> None:
        """Check that this role is held, in this workspace if one is given; raises `PermissionDenied` if not."""
        if workspace is not None and not self.may_enter(workspace):
            raise errors.PermissionDenied(
                f"{self.name!r} may not enter the workspace {workspace!r}; use other credentials"
            )
        if not self.role.includes(role):
            raise errors.PermissionDenied(f"{self.name!r} has the role {self.role}, and this needs {role}")


# The principal of every caller of a service that has no credentials configured.
ANYONE = Principal("anyone", Role.ADMIN)


def as_told(message: str, principal: Principal | None) -> str:
    """Return a message without paths of the machine, which only the operator may read."""
    return message if principal is not None and principal.is_operator else errors.without_folders(message)


# The secret that signs tokens, created once and stored where all processes of the service find it.

_SIGNING_FILE = "token_secret"
_BYTES = 32
_LEAST_CHARACTERS = 16


def signing_key(given: str, folder: Path) -> bytes:
    """Return the 32 bytes that sign tokens: from the given secret, or stored in a folder of mode 700.

    Raises:
        SettingsError: The given secret is shorter than 16 characters.
        StoreUnavailable: The stored one cannot be read or created.
    """
    if given and len(given) < _LEAST_CHARACTERS:
        raise errors.SettingsError(f"server.token_secret is too short; give it {_LEAST_CHARACTERS} characters or more")
    secret = given.encode() if given else _kept_secret(folder / _SIGNING_FILE)
    # Derived from the secret, so that its length and form do not matter.
    return hmac.new(secret, b"heliograph access token", hashlib.sha256).digest()


def _kept_secret(path: Path) -> bytes:
    try:
        if not path.exists():
            # Written under another name and linked when complete: of several processes one wins, and none reads half a
            # file.
            descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".secret-")
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(secrets.token_bytes(_BYTES))
                    file.flush()
                    os.fsync(file.fileno())
                with contextlib.suppress(FileExistsError):
                    os.link(name, path)
            finally:
                Path(name).unlink()
        secret = path.read_bytes()
    except OSError as error:
        raise errors.StoreUnavailable(
            f"the secret in {str(path)!r} cannot be read or made: {error.strerror}"
        ) from error
    if len(secret) < _BYTES:
        raise errors.StoreUnavailable(f"the secret in {str(path)!r} is damaged; delete it, and everybody logs in again")
    return secret


# Hashes of passwords: argon2id for new ones, bcrypt read as well.
#
# Hashing takes about 50 ms of a processor, so it runs in threads, few at a time. Checking takes the same time for every
# name, whether or not it exists and however its password is hashed: a password is compared with one hash of each cost
# that any account has, and only the account's own comparison counts.

MAX_PASSWORD_BYTES = 1024
_AT_ONCE = 2
_BCRYPT = "$2"


def hash_password(password: str) -> str:
    """Return a salted argon2id hash; `InvalidRequestError` if the password is empty or above 1024 bytes."""
    if not 0 < len(password.encode("utf-8", "surrogatepass")) <= MAX_PASSWORD_BYTES:
        raise errors.InvalidRequestError(f"a password has 1 to {MAX_PASSWORD_BYTES} bytes; choose another")
    return _hashers().hash(password)


class PasswordChecker:
    """Compares passwords with hashes, for use within one event loop."""

    def __init__(self, hashes: Iterable[str]) -> None:
        self._one_of_each_cost = {_cost(password_hash): password_hash for password_hash in hashes}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def matches(self, password: str, password_hash: str | None) -> bool:
        """Whether a password matches a hash; never for None, which stands for an unknown name."""
        own = {} if password_hash is None else {_cost(password_hash): password_hash}
        async with self._turns:
            hashes = self._one_of_each_cost | own
            # All are compared, in an order that does not reveal which one matters.
            fits = await asyncio.to_thread(
                lambda: {hashes[cost] for cost in sorted(hashes) if _verify(password, hashes[cost])}
            )
        return password_hash is not None and password_hash in fits


def _cost(password_hash: str) -> str:
    """Return the part of a hash before the salt, which determines how long a comparison takes."""
    return password_hash.rpartition("$")[0] if password_hash.startswith(_BCRYPT) else password_hash.rsplit("$", 2)[0]


def _verify(password: str, password_hash: str) -> bool:
    encoded = password.encode("utf-8", "surrogatepass")
    if len(encoded) > MAX_PASSWORD_BYTES:
        return False
    try:
        return _hashers().verify(encoded, password_hash)
    except ValueError:
        # bcrypt reads 72 bytes and refuses longer ones.
        return False


@cache
def _hashers() -> PasswordHash:
    return PasswordHash((Argon2Hasher(), BcryptHasher()))


# Login tokens: JSON Web Tokens signed with HS256; no other algorithm is accepted.
#
# A token holds a name and an expiry, not permissions: these are looked up at each use, so a changed or removed account
# takes effect at once. All tokens of one login are one session, including renewed ones; ending it ends them all. A
# token also holds a keyed digest of the password it was issued for, so a new password ends old sessions.

GUEST = "guest"
_ALGORITHM = "HS256"
_ISSUER = "heliograph"
_REQUIRED = ["exp", "iat", "iss", "jti", "sub", "sid", "pwd"]
_GUEST_SECONDS = 24 * 3600.0
_REFUSED = "the token is not valid, has expired or was revoked; log in again"


@dataclass(frozen=True, slots=True)
class TokenContent:
    """The content of a token; moments are seconds since the epoch, `session` identifies its login."""

    name: str
    session: str
    password_mark: str
    issued_at: float
    expires_at: float


class TokenSigner:
    """Issues and reads tokens; they last so many hours, and 24 for guests of a service without credentials."""

    def __init__(self, key: bytes, hours: float, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._seconds = hours * 3600.0
        self._clock = clock

    @property
    def longest_seconds(self) -> float:
        """The lifetime of the longest-lived token."""
        return max(self._seconds, _GUEST_SECONDS)

    def issue(self, name: str, password_hash: str, session: str | None = None) -> str:
        """Return a token of an account, or of a guest, who has no password; without a session it starts one."""
        now = self._clock()
        claims: dict[str, Any] = {
            "iss": _ISSUER,
            "sub": name,
            "iat": now,
            "exp": now + (self._seconds if password_hash else _GUEST_SECONDS),
            "jti": secrets.token_hex(16),
            "sid": session or secrets.token_hex(16),
            "pwd": self.password_mark(password_hash),
            # LightRAG's page reads this field to tell guests from accounts.
            "role": "user" if password_hash else GUEST,
        }
        return jwt.encode(claims, self._key, algorithm=_ALGORITHM)

    def read(self, token: str) -> TokenContent:
        """Return the content of a token; raises `AuthenticationError` if it is not ours or has expired."""
        try:
            # Times are compared below, with the clock that issued them.
            options: Any = {"require": _REQUIRED, "verify_exp": False, "verify_iat": False}
            said = jwt.decode(token, self._key, algorithms=[_ALGORITHM], issuer=_ISSUER, options=options)
            times = float(said["iat"]), float(said["exp"])
            claims = TokenContent(str(said["sub"]), str(said["sid"]), str(said["pwd"]), *times)
        except (jwt.InvalidTokenError, TypeError, ValueError) as error:
            raise errors.AuthenticationError(_REFUSED) from error
        if claims.expires_at <= self._clock():
            raise errors.AuthenticationError(_REFUSED)
        return claims

    def password_mark(self, password_hash: str) -> str:
        """Return the digest that stands for a password hash in a token; without the key it reveals nothing."""
        return hmac.new(self._key, password_hash.encode(), hashlib.sha256).hexdigest()[:16]


def looks_like_token(bearer: str) -> bool:
    """Whether a text has the form of a JSON Web Token."""
    return bearer.count(".") == 2


# The keys of the service and their principals.
#
# Only digests are stored. A key is compared with every digest, in constant time, so that the time of a refusal does not
# reveal how close the key was.

ADMIN_KEY_NAME = "api-key"


class KeyRing:
    """All keys of the settings; a `SettingsError` if one has both forms or neither, or two share a name or a key."""

    def __init__(self, settings: ServerSettings) -> None:
        self._keys: list[tuple[bytes, Principal]] = []
        if admin := settings.api_key.get_secret_value():
            self._keys.append((_key_digest(admin.encode()), Principal(ADMIN_KEY_NAME, Role.ADMIN)))
        for key in settings.keys:
            plain = key.key.get_secret_value()
            if bool(plain) == bool(key.key_sha256):
                raise errors.SettingsError(
                    f"the key {key.name!r} (server.keys) needs either key or key_sha256; `make-key` prints both"
                )
            digest = _key_digest(plain.encode()) if plain else bytes.fromhex(key.key_sha256)
            self._keys.append((digest, _principal(key)))
        _check_unique([principal.name for _, principal in self._keys], "name")
        _check_unique([digest.hex() for digest, _ in self._keys], "key")

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, key: str) -> Principal | None:
        """Return the principal of a key, given as in a header (its bytes read as Latin-1), or None."""
        presented = _key_digest(key.encode("latin-1", "replace"))
        found = None
        for digest, principal in self._keys:
            if hmac.compare_digest(digest, presented):
                found = principal
        return found


def _key_digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _principal(holder: KeySettings | AccountSettings) -> Principal:
    return Principal(holder.name, Role(holder.role), frozenset(holder.workspaces) or None)


def _check_unique(values: Sequence[str], kind: str) -> None:
    twice = [value for value in values if values.count(value) > 1]
    if twice:
        shown = f": {twice[0]!r}" if kind == "name" else ""
        raise errors.SettingsError(f"two keys of the service (server.api_key, server.keys) have the same {kind}{shown}")


# The accounts that log in with a password, and what each may do now.


class Accounts:
    """All accounts of the settings; a `SettingsError` if two have one name, or a hash cannot be read."""

    def __init__(self, accounts: tuple[AccountSettings, ...]) -> None:
        self._accounts: dict[str, tuple[Principal, str]] = {}
        for account in accounts:
            if account.name in self._accounts:
                raise errors.SettingsError(f"two accounts (server.accounts) have the name {account.name!r}")
            # LightRAG puts `{bcrypt}` before a hash.
            password_hash = account.password_hash.get_secret_value().strip().removeprefix("{bcrypt}")
            if not any(hasher.identify(password_hash) for hasher in (Argon2Hasher, BcryptHasher)):
                raise errors.SettingsError(
                    f"the password_hash of the account {account.name!r} is neither argon2 nor bcrypt; "
                    "make one with 'heliograph hash-password'"
                )
            self._accounts[account.name] = (_principal(account), password_hash)
        self._checker = PasswordChecker(password_hash for _, password_hash in self._accounts.values())

    def __len__(self) -> int:
        return len(self._accounts)

    def find(self, name: str) -> tuple[Principal, str] | None:
        """Return an account's principal and password hash; None if there is no account of this name any more."""
        return self._accounts.get(name)

    async def check(self, name: str, password: str) -> tuple[Principal, str] | None:
        """Return the account with this password, as `find` does, or None; all names take the same time."""
        found = self.find(name)
        is_right = await self._checker.matches(password, found[1] if found else None)
        return found if is_right else None


# State shared by the processes of a service: attempts within a window, and sessions that were ended.
#
# One small SQLite file that only this user may read. Expired rows are deleted when new ones are written. Subjects of
# attempts are stored as digests, since people type passwords into name fields.

_SCHEMA = """
CREATE TABLE IF NOT EXISTS attempt (
    subject BLOB NOT NULL, batch INTEGER NOT NULL, at REAL NOT NULL, until REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS attempt_subject ON attempt (subject, at);
CREATE INDEX IF NOT EXISTS attempt_until ON attempt (until);
CREATE TABLE IF NOT EXISTS ended_session (id TEXT PRIMARY KEY, until REAL NOT NULL) WITHOUT ROWID;
"""


class Ledger:
    """The file at `path`, created if missing (its folder must exist); a `StoreUnavailable` if it cannot be opened."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        known = (
            *(path, (_SCHEMA,), "the file of sessions"),
            "delete the file and start again: people stay logged in, but sessions that were ended are good again until "
            "they expire, unless 'token_secret' beside it, or server.token_secret where that is set, goes, too",
        )
        # Reads do not wait for writes, even of this process; only for a file that is being recovered.
        self._file, self._reader = SmallFile(*known), SmallFile(*known)
        with self._reader.reading():
            pass

    async def attempt(self, most: Mapping[str, int], window_seconds: float) -> float:
        """Count one attempt by each of some subjects, unless one has made `most` within the window, which ends now.

        Returns:
            0, or the seconds after which the attempt would be counted; then nothing was counted.

        Raises:
            StoreUnavailable: The file fails.
        """
        counted = {_digest(subject): limit for subject, limit in most.items()}
        latest = "SELECT at FROM attempt WHERE subject = ? AND at > ? ORDER BY at DESC LIMIT 1 OFFSET ?"

        def count() -> float:
            now, wait_seconds = self._clock(), 0.0
            # Survives a crash of the process, which suffices for attempts; an ended session is synced.
            with self._file.transaction(durable=False) as connection:
                connection.execute("DELETE FROM attempt WHERE until <= ?", (now,))
                for subject, limit in counted.items():
                    known = connection.execute(latest, (subject, now - window_seconds, limit - 1)).fetchall()
                    if known:
                        wait_seconds = max(wait_seconds, float(str(known[0][0])) + window_seconds - now)
                if wait_seconds <= 0:
                    batch = secrets.randbits(62)
                    rows = [(subject, batch, now, now + window_seconds) for subject in counted]
                    connection.executemany("INSERT INTO attempt VALUES (?, ?, ?, ?)", rows)
            return wait_seconds

        return await asyncio.to_thread(count)

    async def forget(self, subjects: Collection[str]) -> None:
        """Delete the attempts that all of these subjects made together.

        Raises:
            StoreUnavailable: The file fails.
        """
        marks = ", ".join("?" * len(subjects))
        batches = (
            f"SELECT batch FROM attempt WHERE subject IN ({marks}) GROUP BY batch "  # noqa: S608 (marks alone)
            f"HAVING count(DISTINCT subject) = {len(set(subjects))}"
        )

        def forget() -> None:
            with self._file.transaction(durable=False) as connection:
                query = f"DELETE FROM attempt WHERE batch IN ({batches})"  # noqa: S608
                connection.execute(query, tuple(map(_digest, subjects)))

        await asyncio.to_thread(forget)

    async def end_session(self, session: str, until: float) -> None:
        """Record that a session was ended, until all of its tokens have expired (seconds since the epoch).

        Raises:
            StoreUnavailable: The file fails; the session may go on.
        """

        def note() -> None:
            with self._file.transaction() as connection:
                connection.execute("DELETE FROM ended_session WHERE until <= ?", (self._clock(),))
                connection.execute("INSERT OR REPLACE INTO ended_session VALUES (?, ?)", (session, until))

        await asyncio.to_thread(note)

    def is_ended(self, session: str) -> bool:
        """Whether any process ended a session; reads one row.

        Raises:
            StoreUnavailable: The file fails.
        """
        with self._reader.reading() as connection:
            return bool(connection.execute("SELECT 1 FROM ended_session WHERE id = ?", (session,)).fetchall())

    def close(self) -> None:
        """Close the file; closing twice does nothing."""
        self._reader.close()
        self._file.close()


def _digest(subject: str) -> bytes:
    return hashlib.sha256(subject.encode("utf-8", "surrogatepass")).digest()


# Access control: turns credentials into principals, logs people in and out, and counts their attempts.
#
# Without keys and accounts the service is open: every caller is `ANYONE`. With keys alone there is no login. The
# permissions of a principal are read from the settings at each use.

_FOLDER = ".service"
_FILE = "access.db"
_MINUTE_SECONDS = 60.0
# Up to this many addresses may fail to log in under one name: with fewer, one of them could lock out its owner.
_ADDRESSES_OF_A_NAME = 10


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """The credentials of a request: a key, or a bearer token that is a key or comes from a login; empty means none."""

    key: str = ""
    bearer: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """The principal of a request."""

    principal: Principal
    new_token: str | None = field(default=None, repr=False)


def has_credentials(settings: Settings) -> bool:
    """Whether the settings demand credentials."""
    server = settings.server
    return bool(server.api_key.get_secret_value() or server.keys or server.accounts)


class Access:
    """The access checks of HTTP and MCP; a `SettingsError` if a key or an account is not valid."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.time) -> None:
        self._settings = settings.server
        self._folder = settings.store.data_dir / _FOLDER
        self._clock = clock
        self._keys = KeyRing(settings.server)
        self._accounts = Accounts(settings.server.accounts)
        self._opened: tuple[TokenSigner, Ledger] | None = None

    @property
    def is_open(self) -> bool:
        """Whether no credentials are configured, so that every caller may do everything."""
        return not self._keys and not self._accounts

    @property
    def has_accounts(self) -> bool:
        """Whether people can log in."""
        return bool(self._accounts)

    async def open(self) -> Self:
        """Open the files that the processes of the service share.

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
        """Return the identity behind credentials and an address.

        Raises:
            AuthenticationError: There are no credentials and people can log in; or the token is not valid.
            PermissionDenied: The key is missing or wrong, and there is no login.
        """
        if self.is_open:
            return Identity(replace(ANYONE, address=address))
        for key in (credentials.key, credentials.bearer):
            if key and (principal := self._keys.find(key)):
                return Identity(principal)
        if credentials.bearer:
            try:
                return self._identify_token(credentials.bearer)
            except errors.AuthenticationError:
                if self.has_accounts:
                    raise
        raise self._refusal(credentials)

    async def log_in(self, name: str, password: str, address: str) -> str:
        """Return a token for a name and its password.

        Raises:
            AuthenticationError: Name or password is wrong.
            OverloadedError: This address has failed too often, or many have under this name.
        """
        most = self._settings.login_attempts
        subjects = {f"login name {name.casefold()}": most * _ADDRESSES_OF_A_NAME, f"login address {address}": most}
        tokens, ledger = self._shared()
        wait = await ledger.attempt(subjects, self._settings.login_window_seconds)
        if wait > 0:
            raise errors.OverloadedError("too many failed logins; try again later", wait)
        found = await self._accounts.check(name, password)
        if found is None:
            raise errors.AuthenticationError("the name or the password is wrong")
        await ledger.forget(subjects)
        return tokens.issue(name, found[1])

    def guest_token(self) -> str:
        """Return a guest's token for an open service; it allows nothing in one that is not open."""
        return self._shared()[0].issue(GUEST, "")

    async def log_out(self, bearer: str) -> None:
        """End the session of a token, including all tokens renewed from it, permanently and in all processes.

        Raises:
            AuthenticationError: The token is not valid, so there is no session to end.
        """
        tokens, ledger = self._shared()
        await ledger.end_session(tokens.read(bearer).session, self._clock() + tokens.longest_seconds)

    async def count_query(self, principal: Principal) -> None:
        """Count a question; raises `OverloadedError` if there is a limit and the last minute's questions exceed it."""
        most = self._settings.queries_per_minute
        if most:
            wait = await self._shared()[1].attempt({f"query {principal.client}": most}, _MINUTE_SECONDS)
            if wait > 0:
                raise errors.OverloadedError(f"more than {most} questions in a minute; try again later", wait)

    def _shared(self) -> tuple[TokenSigner, Ledger]:
        if self._opened is None:
            raise errors.StoreUnavailable("the service is closed; it takes no requests any more")
        return self._opened

    def _open(self) -> tuple[TokenSigner, Ledger]:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise errors.StoreUnavailable(
                f"the folder {str(self._folder)!r} cannot be made: {error.strerror}"
            ) from error
        key = signing_key(self._settings.token_secret.get_secret_value(), self._folder)
        return TokenSigner(key, self._settings.token_hours, self._clock), Ledger(self._folder / _FILE, self._clock)

    def _identify_token(self, token: str) -> Identity:
        tokens, ledger = self._shared()
        claims = tokens.read(token)
        principal, password_hash = self._accounts.find(claims.name) or (None, "")
        is_good = claims.password_mark == tokens.password_mark(password_hash)
        if principal is None or not is_good or ledger.is_ended(claims.session):
            raise errors.AuthenticationError(_REFUSED)
        is_old = self._clock() > (claims.issued_at + claims.expires_at) / 2
        return Identity(principal, tokens.issue(claims.name, password_hash, claims.session) if is_old else None)

    def _refusal(self, credentials: Credentials) -> errors.AuthenticationError | errors.PermissionDenied:
        # LightRAG's page looks for these words; a guest's token does not count as an attempt to guess a key.
        if credentials.key or (credentials.bearer and not looks_like_token(credentials.bearer)):
            return errors.PermissionDenied("Invalid API Key")
        if self.has_accounts:
            return errors.AuthenticationError("No credentials provided. Please login.")
        return errors.PermissionDenied("API Key required")
