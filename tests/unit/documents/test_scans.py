"""Pages that are pictures, drawn from pages with text."""

from __future__ import annotations

import io
import sys
from typing import Any

import pypdfium2
import pytest
from PIL import Image, ImageOps

from heliograph.documents.base import Limits, RawDocument
from heliograph.documents.isolation import DocumentReader
from heliograph.documents.pdf_layout import Span
from heliograph.documents.registry import find_loader, is_read
from heliograph.documents.scans import SHORTER_SIDE
from heliograph.errors import IngestError, MissingDependencyError

from .samples import PdfPages, load

PARAGRAPH = ("The gateway keeps every message until the", "broker has confirmed it. Größe: 12,5 MB.")


def page() -> PdfPages:
    """A heading and a paragraph of two lines."""
    pages = PdfPages().line(72, 80, "Delivery of messages", size=22)
    return pages.line(72, 130, PARAGRAPH[0], size=14).line(72, 148, PARAGRAPH[1], size=14)


def picture(pages: PdfPages, turned: float = 0.0) -> Image.Image:
    """The first page, as a scanner that it was laid into askew would see it."""
    document = pypdfium2.PdfDocument(pages.data())
    try:
        seen = document[0].render(scale=2).to_pil().convert("L")
    finally:
        document.close()
    return seen.rotate(turned, fillcolor="white", resample=Image.Resampling.BICUBIC)


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def scanned(*, stamp: str = "", turned: float = 0.0) -> PdfPages:
    """A PDF page that is a picture, with a stamp of real letters."""
    pages = PdfPages().picture(picture(page(), turned))
    return pages.line(72, 800, stamp) if stamp else pages


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("turned", [0.0, 2.0])
def test_page_that_is_a_picture_is_read_with_its_heading_and_paragraph(turned: float) -> None:
    document = load("scan.pdf", scanned(turned=turned).data())
    heading, _, rest = document.text.partition("\n")
    assert heading == "# Delivery of messages"
    assert words(rest) == " ".join(PARAGRAPH)
    assert document.title == "Delivery of messages"


def test_stamp_on_a_picture_does_not_make_it_a_page_of_text() -> None:
    document = load("scan.pdf", scanned(stamp="Scanned 2026-11-02").data())
    assert "keeps every message" in document.text
    assert "2026-11-02" in document.text


def test_pages_with_text_stay_as_they_are_beside_pictures() -> None:
    pages = page().next().picture(picture(page()))
    document = load("scan.pdf", pages.data())
    first, second = (document.text[start:] for start in document.page_starts)
    assert words(second).endswith(words(" ".join(PARAGRAPH)))
    assert first.count("Delivery of messages") == 2


def test_without_the_extra_a_scan_is_refused_and_a_part_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliograph.documents.scans.can_read_pictures", lambda: False)
    with pytest.raises(IngestError, match=r"1 pages without text.*install heliograph\[ocr\]"):
        load("scan.pdf", scanned().data())
    pages = page().next().picture(picture(page()))
    assert load("scan.pdf", pages.data()).metadata["unread_pages"] == 1


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Have every picture say its number; gives the sizes of those that were to be read."""
    seen: list[tuple[int, int]] = []

    def read(picture: Image.Image, scale: float) -> tuple[Span, ...]:
        seen.append(picture.size)
        return (Span(72, 300, 300, 312, f"Picture {len(seen)}."),)

    monkeypatch.setattr("heliograph.documents.scans.read_picture", read)
    return seen


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "TIFF"])
def test_picture_is_a_document(kind: str, sizes: list[tuple[int, int]]) -> None:
    document = load("photo.bin", saved(picture(page()), kind))
    assert (document.text, document.page_starts) == ("Picture 1.\n", ())
    assert min(sizes[0]) == SHORTER_SIDE


def test_photo_is_turned_as_its_camera_says(sizes: list[tuple[int, int]]) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    load("photo.jpg", saved(picture(page()), "JPEG", exif=exif))
    assert sizes[0][0] > sizes[0][1] == SHORTER_SIDE


def test_moving_picture_is_one_page(sizes: list[tuple[int, int]]) -> None:
    data = saved(picture(page()), "WEBP", save_all=True, append_images=[picture(page())] * 3, duration=100)
    assert load("moving.webp", data).metadata.get("page_count") is None
    assert len(sizes) == 1


def test_letters_on_no_ground_are_read() -> None:
    letters = Image.merge("LA", (Image.new("L", picture(page()).size, 0), ImageOps.invert(picture(page()))))
    assert words(load("letters.png", saved(letters, "PNG")).text).endswith(" ".join(PARAGRAPH))


def test_long_picture_is_read_to_its_end() -> None:
    seen = picture(page())
    tall = Image.new("L", (seen.width, 3 * seen.height), "white")
    for top in (0, 2 * seen.height):
        tall.paste(seen, (0, top))
    assert load("tall.png", saved(tall, "PNG")).text.count("keeps every message") == 2


def test_strip_that_cannot_be_read_leaves_the_pages_beside_it() -> None:
    document = load("plan.pdf", page().next().strip(2000, 10).data())
    assert "keeps every message" in document.text
    assert document.metadata["unread_pages"] == 1


def test_pages_of_a_picture_are_pages(sizes: list[tuple[int, int]]) -> None:
    data = saved(picture(page()), "TIFF", save_all=True, append_images=[picture(page())])
    document = load("fax.tif", data)
    assert document.metadata["page_count"] == len(sizes) == 2
    assert document.text[document.page_starts[1] :].strip() == "Picture 2."
    with pytest.raises(IngestError, match=r"2 pages, more than 1.*documents\.max_pages"):
        load("fax.tif", data, Limits(max_pages=1))


def test_picture_without_text_or_cut_off_is_refused() -> None:
    with pytest.raises(IngestError, match="no text was found"):
        load("sky.png", saved(Image.new("RGB", (400, 300), "skyblue"), "PNG"))
    with pytest.raises(IngestError, match=r"'half\.png' is no picture that can be read"):
        load("half.png", saved(picture(page()), "PNG")[:2000])


def test_huge_picture_is_refused_unread() -> None:
    data = saved(Image.new("1", (16_000, 16_000)), "PNG")
    with pytest.raises(IngestError, match="pixels"):
        load("huge.png", data)


def test_pictures_in_folders_are_taken_for_decoration() -> None:
    assert is_read("fax.tif")
    assert not is_read("logo.png")
    assert is_read("logo.png", given=True)
    assert type(find_loader(RawDocument("logo.png", b"\x89PNG\r\n\x1a\n"))).__name__ == "PictureLoader"


def test_picture_without_the_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingDependencyError, match=r"heliograph\[ocr\]"):
        load("photo.png", saved(picture(page()), "PNG"))


def test_each_picture_that_is_read_is_told_so_that_a_long_scan_has_time(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr("heliograph.documents.scans.on_page", lambda: told.append("alive"))
    load("scan.pdf", scanned().next().picture(picture(page())).data())
    assert told == ["alive", "alive"]


def test_scan_is_read_in_a_process_of_its_own() -> None:
    reader = DocumentReader(Limits())
    try:
        document = reader.load(RawDocument("scan.pdf", scanned().next().picture(picture(page())).data()))
    finally:
        reader.close()
    assert document.text.count("keeps every message") == 2


def test_other_documents_do_not_wait_for_a_scan() -> None:
    reader = DocumentReader(Limits())
    assert reader._scans is not None
    try:
        # As while one is read.
        with reader._scans._lock:
            assert "keeps every message" in reader.load(RawDocument("a.pdf", page().data())).text
        assert reader._scans._process is None
    finally:
        reader.close()
