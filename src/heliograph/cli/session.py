"""What all commands of one call share: the settings in force, where to write, and the engine.

`make_engine` is the only place that makes an engine, so that tests can put another in its place.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

import heliograph
from heliograph.cli.interrupt import Interrupts
from heliograph.cli.output import Output
from heliograph.errors import NotFoundError

if TYPE_CHECKING:
    from heliograph.settings import Settings, StoreSettings
    from heliograph.sync import Heliograph

__all__ = ["Session", "current_session", "make_engine", "workspace_is_missing"]


class Session:
    """One call of the command line.

    Args:
        output: Where to write.
        interrupts: What Ctrl-C does.
        data_dir: In place of that of the settings, if not None.
        workspace: In place of that of the settings, if not None.
    """

    def __init__(
        self, output: Output, interrupts: Interrupts, data_dir: Path | None = None, workspace: str | None = None
    ) -> None:
        self.output = output
        self.interrupts = interrupts
        given = {"data_dir": data_dir, "workspace": workspace}
        self._store = {name: value for name, value in given.items() if value is not None}

    @property
    def given_settings(self) -> tuple[str, ...]:
        """Paths of the settings that the command line gives, such as `store.data_dir`."""
        return tuple(f"store.{name}" for name in self._store)

    @cached_property
    def settings(self) -> Settings:
        """The settings in force, read when first wanted.

        Raises:
            SettingsError: One of them is not valid.
        """
        return self.load_settings()

    def load_settings(self, **rooms: Mapping[str, Any]) -> Settings:
        """Read the settings, some rooms overridden, and the command line's own store options over these.

        Raises:
            SettingsError: One of them is not valid.
        """
        store = {**rooms.get("store", {}), **self._store}
        return heliograph.Settings.load(**rooms | {"store": store} if store else rooms)

    @contextmanager
    def engine(self, settings: Settings | None = None, *, creates: bool = False) -> Generator[Heliograph]:
        """Open the engine for the length of a block.

        Args:
            settings: In place of those in force.
            creates: Whether the workspace is made if it is not there.

        Raises:
            NotFoundError: It is not there and not to be made.
            HeliographError: It cannot be opened.
        """
        settings = settings or self.settings
        if not creates and workspace_is_missing(settings.store):
            raise NotFoundError(
                f"there is no workspace {settings.store.workspace!r} in {str(settings.store.data_dir)!r} yet; "
                "run 'heliograph index PATHS', or check --data-dir and --workspace"
            )
        engine = make_engine(settings)
        with self.output.waiting("opening the workspace"):
            engine.open()
        try:
            yield engine
        finally:
            engine.close()


def make_engine(settings: Settings) -> Heliograph:
    """Return an engine for these settings, not yet open."""
    return heliograph.Heliograph(settings=settings)


def current_session(context: typer.Context) -> Session:
    """Return the session of the call that a command belongs to."""
    return cast("Session", context.obj)


def workspace_is_missing(store: StoreSettings) -> bool:
    """Whether nothing was ever stored there; only the embedded store, one folder a workspace, can tell unopened."""
    is_embedded = store.url == type(store).model_fields["url"].default
    return is_embedded and not (store.data_dir / store.workspace).is_dir()
