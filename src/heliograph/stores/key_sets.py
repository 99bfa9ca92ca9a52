"""Sets of integer keys as sorted arrays: eight bytes a key, looked up many at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]


class KeySet:
    """Distinct keys in ascending order, and where in that order a key stands."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, key: int | None) -> bool:
        place = int(np.searchsorted(self.keys, key)) if key is not None else len(self.keys)
        return place < len(self.keys) and bool(self.keys[place] == key)

    def holds(self, keys: Keys) -> NDArray[np.bool_]:
        """Return which of the keys are in it."""
        if not len(self.keys):
            return np.zeros(keys.shape, np.bool_)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return self.keys[places] == keys

    def places(self, keys: Keys) -> Keys:
        """Return where each key stands; all of them must be in it."""
        return np.searchsorted(self.keys, keys)
