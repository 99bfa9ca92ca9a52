"""The files that `eval` writes: checked before anything is measured, written after it was shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heliograph.errors import InvalidRequestError
from heliograph.evaluation.models import EvaluationRun
from heliograph.evaluation.plot import to_svg
from heliograph.evaluation.reports import ragas_lines, to_json, to_markdown

__all__ = ["EvaluationFiles"]

_FORMS = {"output": to_json, "markdown": to_markdown, "plot": to_svg}


@dataclass(frozen=True, slots=True)
class EvaluationFiles:
    """Where to write what was measured; None leaves a form out.

    Attributes:
        output: Everything, as JSON.
        markdown: The tables.
        plot: Recall over places, as SVG.
        ragas: Folder for what Ragas reads, a file a run.
    """

    output: Path | None = None
    markdown: Path | None = None
    plot: Path | None = None
    ragas: Path | None = None

    def make_folders(self) -> None:
        """Make the folders that are missing, so that no measurement is lost for a slip in a path.

        Raises:
            InvalidRequestError: A file is a folder, or the other way round, or it may not be written.
            OSError: A folder cannot be made.
        """
        for name, path in self._named():
            if path.is_dir():
                raise InvalidRequestError(f"--{name} {str(path)!r} is a folder; give the name of a file")
            path.parent.mkdir(parents=True, exist_ok=True)
            _check_writable(name, path if path.exists() else path.parent)
        if self.ragas is not None:
            if self.ragas.exists() and not self.ragas.is_dir():
                raise InvalidRequestError(f"--ragas {str(self.ragas)!r} is a file; give the name of a folder")
            self.ragas.mkdir(parents=True, exist_ok=True)
            _check_writable("ragas", self.ragas)

    def write(self, run: EvaluationRun) -> None:
        """Write what was measured, over what is there."""
        for name, path in self._named():
            path.write_text(_FORMS[name](run), "utf-8")
        if self.ragas is not None:
            _write_ragas(run, self.ragas)

    def _named(self) -> Iterator[tuple[str, Path]]:
        """Yield the option and the path of each file."""
        for name, path in (("output", self.output), ("markdown", self.markdown), ("plot", self.plot)):
            if path is not None:
                yield name, path


def _check_writable(name: str, path: Path) -> None:
    if not os.access(path, os.W_OK):
        raise InvalidRequestError(f"--{name}: {str(path)!r} may not be written; check permissions, or choose another")


def _write_ragas(run: EvaluationRun, folder: Path) -> None:
    for report in run.sets:
        for ran in report.runs:
            name = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in ran.configuration.name)
            text = "".join(f"{line}\n" for line in ragas_lines(ran))
            (folder / f"{report.name}.{name}.jsonl").write_text(text, "utf-8")
