"""Sharing texts out to runs of a local model, which pads the texts of one run to the longest of them."""

from __future__ import annotations

from collections.abc import Sequence


def plan_runs(lengths: Sequence[int], max_tokens: int) -> list[list[int]]:
    """Return runs in which texts of similar length are together.

    Args:
        lengths: Tokens of each text.
        max_tokens: Tokens of a run with padding; a longer text is a run of its own.

    Returns:
        The texts' indices, run by run, each once.
    """
    runs: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        # The newest text is the longest so far, so it says how long all of its run become.
        if runs and (len(runs[-1]) + 1) * lengths[index] <= max_tokens:
            runs[-1].append(index)
        else:
            runs.append([index])
    return runs
