"""What a chunk's extraction depends on: its text, headings, the title and its context, and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.extraction.local import LocalExtractor, chunk_contexts
from heliograph.models import Chunk, Document, Extraction
from heliograph.text.tokens import count_tokens

DOCUMENT = Document("doc-1", "notes.md", title="Nordlicht")
SENTENCES = (
    "Anna Weber leads the team in Kiel.",
    "Later Weber went to Oslo.",
    "Karl Weber stayed in Hamburg.",
    "Becker and Weber met at the Nordlicht Institute.",
    "Tom Becker works there.",
    "Apple grew, as apple does.",
    "张三在北京大学研究ESP32芯片。",
    "他毕业于北京大学。",
    "She writes about MQTT.",
)


def chunks_of(texts: list[str]) -> list[Chunk]:
    return [Chunk(f"chunk-{i}", "doc-1", i, text, count_tokens(text), 0, len(text)) for i, text in enumerate(texts)]


def read(chunks: list[Chunk], contexts: list[str] | None = None) -> list[Extraction]:
    extractor = LocalExtractor()
    if contexts is None:
        return asyncio.run(extractor.extract(DOCUMENT, chunks))
    return asyncio.run(extractor.extract_in_context(DOCUMENT, chunks, contexts))


def test_context_holds_full_names_that_another_chunk_introduces() -> None:
    chunks = chunks_of(["Anna Weber leads the team.", "Later Weber went to Oslo.", "Nothing of them."])
    assert chunk_contexts(chunks) == ["first", "weber\tAnna Weber", ""]
    assert "Anna Weber" in {mention.name for mention in read(chunks)[1].entities}


def test_surname_of_two_persons_stands_for_neither_elsewhere() -> None:
    chunks = chunks_of(["Anna Weber left.", "Karl Weber stayed.", "Later Weber went to Oslo."])
    assert chunk_contexts(chunks)[2] == ""
    assert "Weber" in {mention.name for mention in read(chunks)[2].entities}


def test_no_chunks_have_no_contexts() -> None:
    assert chunk_contexts([]) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=3).map(" ".join), min_size=1, max_size=5))
def test_chunk_with_its_context_reads_alone_as_it_does_among_all(texts: list[str]) -> None:
    chunks = chunks_of(texts)
    contexts = LocalExtractor().contexts(DOCUMENT, chunks)
    together = read(chunks)
    for chunk, context, expected in zip(chunks, contexts, together, strict=True):
        assert read([chunk], [context]) == [expected]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(SENTENCES), min_size=2, max_size=6),
    st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=6),
)
def test_update_that_rereads_changed_contexts_ends_as_a_fresh_insert(before: list[str], after: list[str]) -> None:
    """Chunks are known by their texts; those that stay with their context keep what was read in them."""
    old, new = chunks_of(before), chunks_of(after)
    old_contexts, new_contexts = chunk_contexts(old), chunk_contexts(new)
    kept = {
        (chunk.text, context): (chunk.position, extraction.entities, extraction.relations)
        for chunk, context, extraction in zip(old, old_contexts, read(old), strict=True)
    }
    for chunk, context, fresh in zip(new, new_contexts, read(new), strict=True):
        if (chunk.text, context) in kept:
            position, entities, relations = kept[chunk.text, context]
            again = read([replace(chunk, id=f"chunk-{position}", position=position)], [context])[0]
            assert (again.entities, again.relations) == (entities, relations)
            assert [m.name for m in entities] == [m.name for m in fresh.entities]
            assert [m.description for m in relations] == [m.description for m in fresh.relations]


def test_word_is_a_name_in_german_where_the_document_joins_it_by_a_hyphen() -> None:
    chunks = chunks_of(
        [
            "Das Handbuch für Zorblatt und für den Kernel ist nicht mehr ganz neu, wie auch das Zorblatt-Paket.",
            "Wer Zorblatt kennt, wird auch die Pakete und den Kernel kennen, oder nicht.",
            "Dann wird Zorblatt geladen. Sie sehen den Kernel auch im Dateisystem, und Datei für Datei ist da.",
        ]
    )
    contexts = chunk_contexts(chunks)
    assert contexts[1].startswith("de:Zorblatt|")
    assert "Kernel" in contexts[2]
    for extraction in read(chunks):
        assert {mention.name for mention in extraction.entities} & {"Zorblatt", "Kernel", "Datei"} == {"Zorblatt"}


def test_stated_language_reads_headings_of_a_half_translated_page() -> None:
    document = Document("doc-1", "a.html", title="Zorblatt", metadata={"language": "de-DE"})
    text = "# Zorblatt\n\n## Aufruf des Zeigers\n\nYou can start the tool from the menu of the window."
    (extraction,) = asyncio.run(LocalExtractor().extract(document, chunks_of([text])))
    assert {mention.name for mention in extraction.entities} == {"Zorblatt"}


def test_title_that_its_document_never_speaks_of_is_no_subject_in_other_languages() -> None:
    document = Document("d", "ayuda.md", title="Propiedades concretas")
    below = "El administrador del sistema puede impedir que los usuarios cambien su fondo de pantalla en GNOME."
    text = f"# {document.title}\n\n{below}"
    chunks = [Chunk("c", "d", 0, text, 40, 0, len(text))]
    assert chunk_contexts(chunks, "es", document.title)[0].split("\n")[-1] == "unsaid"
    (extraction,) = asyncio.run(LocalExtractor().extract(document, chunks))
    assert document.title not in {mention.name for mention in extraction.entities}


def test_labels_of_other_languages_are_no_names() -> None:
    text = (
        "# Zapis\n\nWybierz Wydruk z menu. Obraz jest w katalogu Obrazy. Otwórz program Inkscape.\n\n"
        "## KOD ZAKOŃCZENIA\n\n"
        "W systemie Linux i w mieście Olsztyn --file=POLECENIE nie działa, kod zakończenia to zero."
    )
    chunks = chunks_of([text])
    found = {mention.name for mention in read(chunks, chunk_contexts(chunks, "pl"))[0].entities}
    assert {"Linux", "Olsztyn"} <= found
    assert found.isdisjoint({"Wybierz Wydruk", "Obrazy", "Zapis", "POLECENIE", "KOD ZAKOŃCZENIA"})
