"""Names of labels and relationship types, made of what sources call things.

A name holds letters, digits and underscores only, so that it can stand between backticks in a statement. Databases
never forget a relationship type, and slow down or refuse when there are too many; past a bound, new ones are `RELATED`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

RELATED = "RELATED"
_UNKNOWN = "UNKNOWN"
_OTHER = re.compile(r"\W+")
_MAX_LENGTH = 64


def label_name(entity_type: str) -> str:
    """Return the label of an entity type, such as `PERSON`; `UNKNOWN` where nothing of it can be in a name."""
    return _plain(entity_type) or _UNKNOWN


def workspace_label(workspace: str) -> str:
    """Return the label of all that is in a workspace; no entity type has such a one, as those are in capitals."""
    return f"Workspace_{_OTHER.sub('_', workspace)}"


class TypeNames:
    """Names of relationship types, not more than a database bears.

    Args:
        known: Types that the database has.
        most: Types at the most, over all workspaces in it.
    """

    def __init__(self, known: Iterable[str], most: int) -> None:
        self._known = set(known)
        self._most = most

    def name(self, keyword: str) -> str:
        """Return the type of relations whose first keyword this is."""
        name = _plain(keyword) or RELATED
        if name not in self._known:
            if len(self._known) >= self._most:
                return RELATED
            self._known.add(name)
        return name


def _plain(text: str) -> str:
    return _OTHER.sub("_", text).strip("_").upper()[:_MAX_LENGTH]
