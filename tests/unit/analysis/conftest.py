"""A small workspace to look into."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from heliograph.sync import Heliograph
from heliograph.testing.fakes import FakeEmbeddingModel

from ..ingest.world import SpelledExtractor

TEXTS = {
    "docs/team.md": "Ann (person): leads the team.\nBob (person): writes.\nAnn -> Bob [leads] 1.0: Ann leads Bob.",
    "docs/town.md": "Cy (place): a town.\nBob -> Cy [lives in] 2.0: Bob lives in Cy.\nBob = Robert",
    "docs/</script><b>.md": "Dora (person): </script><script>document.title='taken'</script>",
    "docs/copy.md": "Ann (person): leads the team.\nBob (person): writes.\nAnn -> Bob [leads] 1.0: Ann leads Bob.",
}


@pytest.fixture
def kb(tmp_path: Path) -> Generator[Heliograph]:
    """Give an open workspace with four small documents, two of which have one text."""
    made = Heliograph(tmp_path / "kb", embedding=FakeEmbeddingModel(16), extractor=SpelledExtractor())
    with made as kb:
        kb.insert(list(TEXTS.values()), sources=list(TEXTS))
        yield kb
