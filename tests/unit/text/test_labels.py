"""Words with a capital that are common words."""

import pytest

from heliograph.text.labels import labels_of
from heliograph.text.phrases import find_names


@pytest.mark.parametrize(
    ("text", "language", "labels"),
    [
        ("Pulse en Configuración para abrirla.", "es", {"Configuración"}),
        ("Abra Kerberos. Use Kerberos. Con Kerberos y sin Kerberos y tras Kerberos.", "es", set()),
        ("Choisissez Affichage dans la liste ; un affichage suffit.", "fr", {"Affichage", "Choisissez"}),
        ("Use Python, or run Python again.", "en", set()),
        ("Open Sections and close the sections.", "en", {"Sections"}),
        ("Sie fahren nach Paris und lieben Paris.", "de", set()),
        ("Use --format=FORMAT with HTML, or -o[=FILE].", "en", {"FORMAT", "FILE"}),
        ("Use --format=JSON, --tz=UTC or --gpu=CUDA.", "en", set()),
    ],
)
def test_labels_are_words_that_are_also_written_small(text: str, language: str, labels: set[str]) -> None:
    assert labels_of(text, language) == labels


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Press Alt+F4 or Strg+Umschalt+F4 to close GTK+3.", ["GTK+3"]),
        ("It came from Springer Science+Business Media last year.", ["Springer Science+Business Media"]),
        (
            "Choisissez Outils - Options - LibreOffice Writer, et assurez-vous que la case est cochée.",
            ["LibreOffice Writer"],
        ),
        ("Wählen Sie im Fenster Bild → Modus → Indiziert, dann ist es fertig.", []),
    ],
)
def test_keys_and_ways_through_menus_are_no_names(text: str, names: list[str]) -> None:
    assert [name.text for name in find_names(text)] == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Escrito por David MacKenzie y Jim Meyering.", ["David MacKenzie", "Jim Meyering"]),
        ("Santiago Ramón y Cajal nació en Petilla.", ["Santiago Ramón y Cajal", "Petilla"]),
        ("bunun için Örnek 10.13 ve Debian var", ["Debian"]),
    ],
)
def test_spanish_and_joins_surnames_only_and_numbered_parts_are_no_names(text: str, names: list[str]) -> None:
    assert [name.text for name in find_names(text)] == names
