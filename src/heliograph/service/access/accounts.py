"""The people who log in with a password, and what each may do now."""

from __future__ import annotations

from heliograph.errors import SettingsError
from heliograph.service.access.passwords import PasswordChecker, is_known_hash, strip_scheme
from heliograph.service.principal import Principal, Role
from heliograph.settings import AccountSettings


class Accounts:
    """All accounts of some settings.

    Raises:
        SettingsError: Two have one name, or a password hash is none that can be read.
    """

    def __init__(self, accounts: tuple[AccountSettings, ...]) -> None:
        self._accounts: dict[str, tuple[Principal, str]] = {}
        for account in accounts:
            if account.name in self._accounts:
                raise SettingsError(f"two accounts (server.accounts) have the name {account.name!r}")
            password_hash = strip_scheme(account.password_hash.get_secret_value())
            if not is_known_hash(password_hash):
                raise SettingsError(
                    f"the password_hash of the account {account.name!r} is neither argon2 nor bcrypt; "
                    "make one with 'heliograph hash-password'"
                )
            principal = Principal(account.name, Role(account.role), frozenset(account.workspaces) or None)
            self._accounts[account.name] = (principal, password_hash)
        self._checker = PasswordChecker(password_hash for _, password_hash in self._accounts.values())

    def __len__(self) -> int:
        return len(self._accounts)

    def find(self, name: str) -> Principal | None:
        """Return what an account may do, or None if there is none of this name any more."""
        found = self._accounts.get(name)
        return found and found[0]

    def password_hash(self, name: str) -> str | None:
        """Return the hash of an account's password, or None."""
        found = self._accounts.get(name)
        return found and found[1]

    async def check(self, name: str, password: str) -> Principal | None:
        """Return the account whose password this is, or None; all names take as long."""
        is_right = await self._checker.matches(password, self.password_hash(name))
        return self.find(name) if is_right else None
