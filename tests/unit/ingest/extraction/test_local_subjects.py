"""What a passage is about: by its title line, its opening, and what else it calls its subject."""

from __future__ import annotations

import asyncio

import pytest

from heliograph.extraction.local import LocalExtractor
from heliograph.extraction.local_subjects import plain, subjects_of
from heliograph.ids import mention_rank
from heliograph.models import Chunk, Document, Extraction
from heliograph.text.tokens import count_tokens


def extract(text: str, title: str = "") -> Extraction:
    chunk = Chunk("chunk-0", "doc-1", 0, text, count_tokens(text), 0, len(text))
    return asyncio.run(LocalExtractor().extract(Document("doc-1", "s", title=title), [chunk]))[0]


def subjects(text: str, title: str = "") -> set[str]:
    rank = mention_rank("doc-1", 0, is_subject=True)
    return {mention.name for mention in extract(text, title).entities if mention.rank == rank}


def pairs(text: str, title: str = "") -> set[frozenset[str]]:
    return {frozenset((found.source, found.target)) for found in extract(text, title).relations}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("King of the Sierras is a 1938 American western directed by Samuel Diege.", {"King of the Sierras"}),
        ("These Glamour Girls is a 1939 film directed by S. Sylvan Simon.", {"These Glamour Girls"}),
        ('"You Are What I Am" is a song by Gordon Lightfoot.', {"You Are What I Am"}),
        ("Canon law is the body of laws of the Church of England.", {"Canon law"}),
        ("South Dakota ( ; [abc] ) is a state in the United States.", {"South Dakota"}),
        ("Demon Dice\nThe game was made by Lester Smith and was sold in many shops.", {"Demon Dice"}),
        ("柳江。柳江的主要支流是寨蒿河。", {"柳江"}),
        ("《神圣十月》是一部日本动画。", {"神圣十月"}),
        ("In Germany, the law is a federal one.", set()),
        ("As of July 31, 2018, the debt was a burden to Kiel.", set()),
        ("It is a box that was made in Kiel.", set()),
        ("The population was 682 in Kiel.", set()),
    ],
)
def test_opening_names_the_subject(text: str, expected: set[str]) -> None:
    assert subjects(text) == expected


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Dillon Hart Francis (born October 5, 1987) is an American musician.", "Dillon Francis"),
        ('Richard Elmer "Dick" Humbert (1918–2007) was an American footballer.', "Dick Humbert"),
        ("Maria MacManus, better known by her stage name Elva Zorb, is an English singer.", "Elva Zorb"),
        ("Abuso di Potere (internationally released as Shadows Unseen) is a film.", "Shadows Unseen"),
    ],
)
def test_other_names_of_the_subject_are_subjects_too(text: str, other: str) -> None:
    assert other in subjects(text)


@pytest.mark.parametrize(
    ("text", "title", "pair"),
    [
        ("Zorb Ltd makes pumps. It was founded in Kiel by Tom Becker.", "Zorb Ltd", ("Zorb Ltd", "Tom Becker")),
        ("Human Flow is a 2017 film. The film was shown in Oslo and Kiel.", "", ("Human Flow", "Kiel")),
        ("Anna Weber met Tom Becker. She lives in Oslo.", "Anna Weber", ("Anna Weber", "Oslo")),
        ("At Zorb Ltd the chief is Anna Weber. She lives in Oslo.", "Zorb Ltd", ("Anna Weber", "Oslo")),
        ("张三是工程师。他毕业于北京大学。", "张三", ("张三", "北京大学")),
    ],
)
def test_pronoun_stands_for_what_it_means(text: str, title: str, pair: tuple[str, str]) -> None:
    assert frozenset(pair) in pairs(text, title)


def test_short_names_stand_for_full_ones_before_and_after() -> None:
    names = {m.name for m in extract("Sheeran wrote it. Then Ed Sheeran sang it at the Nordlicht Institute.").entities}
    assert names == {"Ed Sheeran", "Nordlicht Institute"}
    text = "She came to the Nordlicht Institute in Kiel. Later the Institute grew."
    assert {m.name for m in extract(text).entities} == {"Nordlicht Institute", "Kiel"}


def test_place_in_a_longer_name_stands_for_itself() -> None:
    text = "The Diocese of Fredericton is a diocese of Canada. Its offices are in Fredericton."
    assert {"Diocese of Fredericton", "Fredericton"} <= {m.name for m in extract(text).entities}


@pytest.mark.parametrize(
    "title", ["Joust 2: Survival of the Fittest", "Alexander and the Terrible, Horrible, No Good, Very Bad Day"]
)
def test_long_title_is_a_name(title: str) -> None:
    assert title in subjects("It was made in Kiel.", title)


def test_values_that_chinese_sentences_state_are_entities() -> None:
    assert frozenset(("渡川之战", "一条兼定")) in pairs("渡川之战。渡川之战的主要指挥官是一条兼定。")
    assert frozenset(("图纹玛瑙", "玛瑙")) in pairs("图纹玛瑙的类别是玛瑙。", "图纹玛瑙")


def test_speakers_of_a_dialogue_are_persons() -> None:
    text = "AdamSmith: Hey Li Hua, rent is due.\nLiHua: Thanks, Adam!\nAdamSmith: Sure.\nLiHua: See you in Kiel."
    found = {mention.name: mention.type for mention in extract(text).entities}
    assert found == {"Adam Smith": "person", "Li Hua": "person", "Kiel": found["Kiel"]}
    assert frozenset(("Adam Smith", "Li Hua")) in pairs(text)


def test_both_forms_of_an_abbreviation_are_kept() -> None:
    text = (
        "Zorb, Plim, Quux and Vorb met Knar, Drim, Solt, Fenn, Jurb, Teck, Wist, Yarn, Hulk, Bint, Morp, Lurk, Tock. "
    )
    names = {m.name for m in extract(text + "Message Queuing Telemetry Transport (MQTT) is used.").entities}
    assert {"MQTT", "Message Queuing Telemetry Transport"} <= names


def test_series_is_no_plural() -> None:
    text = "The television series began. The television series went on. A television series ends."
    assert {mention.name for mention in extract(text).entities} == {"television series"}


def test_label_of_many_links_is_a_button_and_no_name() -> None:
    def text(target: str) -> str:
        places = (f"[Zorblatt Scholar](https://a.example/{target.format(number)})" for number in range(4))
        told = (
            "Ann Weber met Otto Brandt in Oslo that year",
            "Otto Brandt left Oslo",
            "it rained in Bergen",
            "she sang",
        )
        return "\n\n".join(f"In those days {said}. {link}" for said, link in zip(told, places, strict=True))

    elsewhere = {mention.name for mention in extract(text("{}")).entities}
    assert "Zorblatt Scholar" not in elsewhere
    assert {"Ann Weber", "Otto Brandt"} <= elsewhere
    assert "Zorblatt Scholar" in {mention.name for mention in extract(text("same")).entities}
    chained = (
        "In those days Ann Weber left Oslo. [A page](https://a.example/1)[Zorblatt Scholar](https://a.example/(2))"
    )
    assert "Zorblatt Scholar" not in {mention.name for mention in extract(chained).entities}


@pytest.mark.parametrize(
    "text",
    [
        "The Zorblatt Machine - https://a.example/web/1999",
        "Vries, J. (1999) Of mills. Rev. 12: 1-9.Zorblatt Scholar\n\nHolm, K. 2001. Of mines. Oslo.Zorblatt Scholar",
        "Holm K. Of mines. Bergen [Zorblatt Scholar]\n\nVries J. Of mills. Oslo [Zorblatt Scholar]",
        "6. G Holm M Vries (1995) ZorblattTitle The number of mines in old Bergen and what is known of who dug them. "
        "_Rev Hist_**12** 887–892 Zorblatt Handle 10.1073/pnas.011244998",
    ],
)
def test_notices_and_references_name_nothing(text: str) -> None:
    names = {mention.name for mention in extract(f"Ann Weber met Otto Brandt in Oslo.\n\n{text}").entities}
    assert {"Ann Weber", "Otto Brandt", "Oslo"} <= names
    assert not any("Zorblatt" in name for name in names)


def test_sentence_that_ends_with_an_address_is_read() -> None:
    assert "Zorblatt" in {mention.name for mention in extract("We met Zorblatt at https://a.example/").entities}


def test_excerpt_has_no_address_of_a_link_that_was_cut() -> None:
    assert plain("Oslo[April 17](https://a.example/(x)) and [Ann](https://a.example/?q") == "Oslo[April 17]) and [Ann]"


def test_common_word_behind_a_colon_of_a_heading_is_no_subject() -> None:
    def named(heading: str) -> list[str]:
        return [name for name, _ in subjects_of(heading)]

    assert named("What is known so far of the old mines: Lethal violence deep in Bergen") == ["Bergen"]
    assert named("What is known so far of the old mines: Zorblatt deep in Bergen") == ["Zorblatt", "Bergen"]


def test_numbered_and_gerundial_headings_are_no_names_because_of_their_capitals() -> None:
    assert subjects_of("22.5: Variadic templates") == (("Variadic templates", "concept"),)
    assert subjects_of("Assigning Footprints") == ()
    assert subjects_of("Assigning Footprints in Zorblatt") == (("Zorblatt", "unknown"),)


def test_sentence_that_says_there_is_something_defines_nothing() -> None:
    assert "Fortunately" not in subjects("Fortunately, there is a better alternative. It was found.")
    assert subjects("Thelma Zorblatt, who is a singer, lives here.") == {"Thelma Zorblatt"}


def test_explained_chinese_settings_are_no_speakers() -> None:
    text = (
        "图标主题： 设置图标的主题。\n\n对齐图形： 控制图形是否对齐。\n\n画布比例： 设置比例。\n\n自动保存： 保存工程。"
    )
    assert all(mention.type != "person" for mention in extract(text).entities)


def test_common_chinese_word_of_a_heading_is_no_subject() -> None:
    text = "# 颜色\n\n您可以在这里设置颜色，然后保存。"
    assert "颜色" not in subjects(text)


def test_term_begins_with_no_pointing_adjective() -> None:
    text = "It ends the current string object. Take the current string object. See the current string object."
    assert {mention.name for mention in extract(text).entities} == {"string object"}


def test_word_of_a_german_heading_is_no_subject_if_the_text_has_it_as_a_noun() -> None:
    text = (
        "## 2. Software in Paketen organisieren\n\nDie Pakete sind hier nicht alle; wer von Paketen spricht, kennt sie."
    )
    assert "Paketen" not in {mention.name for mention in extract(text).entities}


def test_heading_of_one_word_that_its_text_does_not_have_is_no_subject() -> None:
    new = "All of this is new.\n\n## Zorblatt\n\n"
    text = "You can find this in the menu of the window, where it waits for all of you."
    assert "Zorblatt" not in {mention.name for mention in extract(new + text).entities}
    text = "It waits in the menu of the window, where all of you can find it."
    assert "Zorblatt" in {mention.name for mention in extract(new + text).entities}


def test_mark_of_a_menu_behind_a_heading_is_no_part_of_it() -> None:
    assert subjects_of("8.58. Zorblatt Colours…") == (("Zorblatt Colours", "unknown"),)


def test_german_heading_that_says_how_is_no_name() -> None:
    assert subjects_of("Bild mit Rahmen geöffnet", language="de") == ()
    assert [name for name, _ in subjects_of("Bild mit Rahmen", language="de")] == ["Bild mit Rahmen"]


def test_explained_german_words_are_no_speakers() -> None:
    text = "\n\n".join(
        f"{word}: Die Deckkraft hängt auch vom Stift ab, wenn er da ist." for word in ("Druck", "Zufall", "Druck")
    )
    assert not [mention.name for mention in extract(text).entities if mention.type == "person"]


def test_notes_of_other_languages_are_no_speakers() -> None:
    text = "\n\n".join(
        f"{word}: Это не всегда так, если окно закрыто." for word in ("Примечание", "Пример", "Примечание")
    )
    assert not [mention.name for mention in extract(text).entities if mention.type == "person"]


@pytest.mark.parametrize(
    ("heading", "language", "below", "names"),
    [
        ("Installare Zorblatt", "it", "Il server parte da solo.", ["Zorblatt"]),
        ("Consultez la Charte Zorblatt", "fr", "Elle dit tout.", ["Charte Zorblatt"]),
        ("Activar las teclas lentas", "es", "Active las teclas lentas si quiere.", []),
        ("La pantalla se bloquea", "es", "Puede cambiar el tiempo.", []),
        ("Conectar a una red oculta", "es", "Pulse Conectar para conectar el equipo.", []),
        ("Fichier partagé", "fr", "Un fichier partagé est lu par tous.", ["Fichier partagé"]),
        ("Überprüfen Ihrer Festplatte", "de", "Sie können die Festplatte überprüfen.", []),
        ("Use an on-screen keyboard", "en", "Type by clicking.", []),
        ("Set keyboard shortcuts", "en", "To set the shortcut, press a key.", []),
        ("Keyboard shortcuts", "en", "Press a key of the keyboard.", ["Keyboard shortcuts"]),
        ("Winnie the Pooh", "en", "He likes honey.", ["Winnie the Pooh"]),
        ("A. Appendice", "it", "Il labirinto.", ["Appendice"]),
    ],
)
def test_headings_that_begin_with_a_verb_name_only_what_stands_in_them(
    heading: str, language: str, below: str, names: list[str]
) -> None:
    assert [name for name, _ in subjects_of(heading, language=language, below=below)] == names


def test_heading_that_begins_with_a_command_is_read_in_german() -> None:
    text = "# Die Lampe\n\nDie Lampe brennt mit Öl.\n\n## \\listen anlegen\n\nDie Lampe und das Öl stehen im Haus."
    assert extract(text, "Die Lampe")
