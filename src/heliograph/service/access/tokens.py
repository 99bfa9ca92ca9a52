"""The tokens of who logs in: JSON Web Tokens, signed with HS256 and with nothing else believed.

A token says who and until when, not what is allowed: that is looked up at each use, so a changed or removed account
changes at once. All tokens of one login are one session, renewed ones too; ending it ends them all. A token also names
the password it was got with (as a keyed digest), so a new password ends old sessions.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jwt

from heliograph.errors import AuthenticationError

GUEST = "guest"
_ALGORITHM = "HS256"
_ISSUER = "heliograph"
_REQUIRED = ["exp", "iat", "iss", "jti", "sub", "sid", "pwd"]
_GUEST_SECONDS = 24 * 3600.0
_REFUSED = "the token is not valid, has expired or was revoked; log in again"


@dataclass(frozen=True, slots=True)
class Claims:
    """What a token says.

    Attributes:
        name: Of the account.
        session: The login that it goes back to.
        password_mark: Of the password it was got with.
        issued_at: Seconds since the epoch.
        expires_at: Seconds since the epoch.
    """

    name: str
    session: str
    password_mark: str
    issued_at: float
    expires_at: float

    def is_past_half(self, now: float) -> bool:
        """Whether more than half of its life is over."""
        return now > (self.issued_at + self.expires_at) / 2


class TokenSigner:
    """Makes tokens and reads them.

    Args:
        key: 32 bytes.
        hours: How long a token is good; one of a guest, for whom nothing is guarded, 24.
        clock: Tells seconds since the epoch.
    """

    def __init__(self, key: bytes, hours: float, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._seconds = hours * 3600.0
        self._clock = clock

    @property
    def longest_seconds(self) -> float:
        """How long the longest-lived token is good."""
        return max(self._seconds, _GUEST_SECONDS)

    def issue(self, name: str, password_hash: str, session: str | None = None) -> str:
        """Return a token.

        Args:
            name: Whose.
            password_hash: Of the account; empty for a guest.
            session: The login that it goes back to; None begins one.
        """
        now = self._clock()
        claims: dict[str, Any] = {
            "iss": _ISSUER,
            "sub": name,
            "iat": now,
            "exp": now + (self._seconds if password_hash else _GUEST_SECONDS),
            "jti": secrets.token_hex(16),
            "sid": session or secrets.token_hex(16),
            "pwd": self.password_mark(password_hash),
            # LightRAG's page reads this one to tell guests from people.
            "role": "user" if password_hash else GUEST,
        }
        return jwt.encode(claims, self._key, algorithm=_ALGORITHM)

    def read(self, token: str) -> Claims:
        """Return what a token says, if it is ours and has not expired.

        Raises:
            AuthenticationError: It is not, or has.
        """
        try:
            # Times are compared below, with the clock that issued them.
            options: Any = {"require": _REQUIRED, "verify_exp": False, "verify_iat": False}
            said = jwt.decode(token, self._key, algorithms=[_ALGORITHM], issuer=_ISSUER, options=options)
            times = float(said["iat"]), float(said["exp"])
            claims = Claims(str(said["sub"]), str(said["sid"]), str(said["pwd"]), *times)
        except (jwt.InvalidTokenError, TypeError, ValueError) as error:
            raise AuthenticationError(_REFUSED) from error
        if claims.expires_at <= self._clock():
            raise AuthenticationError(_REFUSED)
        return claims

    def password_mark(self, password_hash: str) -> str:
        """Return what stands for a password hash in a token; without the key it tells nothing."""
        return hmac.new(self._key, password_hash.encode(), hashlib.sha256).hexdigest()[:16]


def looks_like_token(bearer: str) -> bool:
    """Whether it has the form of a JSON Web Token."""
    return bearer.count(".") == 2
