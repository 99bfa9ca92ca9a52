"""Third-party packages that read formats, imported when the first document needs them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from heliograph.errors import MissingDependencyError

__all__ = ["import_package"]


def import_package(module: str, package: str, extra: str = "") -> Any:
    """Return a module.

    Args:
        module: What to import.
        package: What brings it.
        extra: The extra of Heliograph that brings the package; empty if a plain install does.

    Raises:
        MissingDependencyError: It is not installed; names package and extra.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingDependencyError(package, extra) from error
