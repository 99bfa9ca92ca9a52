"""Other engines beside a store: comparing them with the truth, making them anew, forgetting those that are gone.

An engine that no setting names any more still has its place in the outbox of the store with the truth, which keeps
what it has not seen. `forget_follower` ends that.
"""

from __future__ import annotations

from collections.abc import Mapping

from heliograph.errors import InvalidRequestError, NotFoundError, StoreError
from heliograph.maintenance.findings import Findings
from heliograph.maintenance.problems import CheckReport, Problem
from heliograph.settings import StoreSettings
from heliograph.stores.base import Follower, FollowerDifference, Store
from heliograph.stores.registry import open_store

__all__ = ["check_follower", "find_leftovers", "forget_follower", "rebuild_role"]


async def check_follower(follower: Follower) -> Findings:
    """Compare ids and contents that another engine keeps with those it should; one out of reach is a problem, too."""
    try:
        differences = await follower.find_differences()
    except StoreError as error:
        return Findings((Problem("store", follower.name, f"it cannot be compared: {error}", is_repairable=False),))
    return Findings(tuple(Problem("store", follower.name, _describe(item)) for item in differences))


def _describe(difference: FollowerDifference) -> str:
    if difference.fault:
        return difference.fault
    counts = {
        "missing": difference.missing,
        "too many": difference.stray,
        "with other contents than in the store with the truth": difference.changed,
    }
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    return f"of its {difference.kind} there are {said}: {', '.join(difference.examples)}"


async def rebuild_role(store: Store, role: str) -> CheckReport:
    """Make what serves a role anew from the truth, and compare it; a cache is emptied.

    Raises:
        InvalidRequestError: The role is served by the store with the truth.
        StoreError: One of them is out of reach.
    """
    followers = [item for item in store.followers if item.role == role]
    if not followers:
        served = ", ".join(sorted({item.role for item in store.followers})) or "none"
        raise InvalidRequestError(
            f"no other engine serves the role {role!r} (served elsewhere: {served}); leave the role out to make "
            "everything anew"
        )
    problems: list[Problem] = []
    for follower in followers:
        await follower.rebuild()
        problems += (await check_follower(follower)).problems
    return CheckReport(tuple(problems), len(problems), 0, 0, 0, 0, 0)


async def find_leftovers(store: Store) -> Mapping[str, int]:
    """Return, per engine that the outbox still waits for though no setting names it, how far behind it is."""
    if store.outbox is None:
        return {}
    named = {item.name for item in store.followers}
    version = await store.get_data_version()
    readers = await store.outbox.get_readers()
    return {name: version - max(0, seen) for name, seen in readers.items() if name not in named}


async def forget_follower(settings: StoreSettings, name: str) -> None:
    """Keep nothing more for another engine; if a setting names it again, it is made anew.

    Args:
        settings: The workspace.
        name: The engine, as `heliograph doctor` calls it.

    Raises:
        NotFoundError: None of that name follows the workspace.
        StoreError: The workspace cannot be opened.
    """
    home = await open_store(settings, None)
    try:
        readers = await home.outbox.get_readers() if home.outbox is not None else {}
        if home.outbox is None or name not in readers:
            known = ", ".join(map(repr, sorted(readers))) or "none"
            raise NotFoundError(f"no engine {name!r} follows the workspace {settings.workspace!r}; there are: {known}")
        await home.outbox.unregister(name)
    finally:
        await home.close()
