"""What answers in documents of other moulds: options, defaults, questions with their answers, sentences that go on."""

from __future__ import annotations

import numpy as np
import pytest

from heliograph.models import Chunk
from heliograph.query.answers.candidates import expected_forms
from heliograph.query.answers.quotables import Quotable, quotable_sentences, shown_text
from heliograph.query.answers.sentence_ranking import answer_margin, choose, shortlist
from heliograph.query.models import RetrievedChunk
from heliograph.text.analysis import detect_language


def _quotables(text: str, language: str = "en") -> list[Quotable]:
    chunk = Chunk("chunk-1", "doc-1", 0, text, 99, 0, len(text), (), None)
    return quotable_sentences([RetrievedChunk(chunk, "a.md", "1", ())], (), language)


def _first(question: str, text: str) -> str:
    return choose(shortlist(question, _quotables(text, detect_language(question)), {}), 3)[0].told


_OPTIONS = (
    "# keeper(8)\n\n`-q`: Say nothing of tides.\n\n`-j`: Write the list of ships as records.\n\n"
    "This feature is available in release 3.1.\n\n`-w, --number-width=数字`: 为行号留出指定列的宽度\n\n"
    "`-n`: 添加行号\n\nEnd.\n"
)


@pytest.mark.parametrize(
    ("question", "start"),
    [
        ("What does the keeper do with -j?", "`-j`: Write the list"),
        ("What does the option -q of the keeper mean?", "`-q`: Say nothing"),
        ("哪个选项设置行号的宽度？", "`-w, --number-width=数字`"),
    ],
)
def test_the_option_that_a_question_names_or_asks_for_comes_first(question: str, start: str) -> None:
    assert _first(question, _OPTIONS).startswith(start)


def test_the_value_in_a_row_comes_before_the_sentence_that_says_what_it_is() -> None:
    text = (
        "#### Interval\n\n| type | default | mandatory |\n| --- | --- | --- |\n| integer | 1200 | no |\n\n"
        "Specifies the mark message interval in seconds.\n\n#### Other\n\nThe sea is wide.\n"
    )
    assert "default: 1200" in _first("What is the mark message interval by default?", text)


@pytest.mark.parametrize(
    "text",
    [
        "**How is the wick trimmed?**\n\nWith scissors, at dawn.\n\nMore on oil.\n",
        "Q3: How is the wick trimmed?\nA: With scissors, at dawn.\n",
        "问：灯芯怎么剪？\n\n用剪刀，在黎明。\n\n完。\n",
    ],
)
def test_a_question_stands_before_what_answers_it(text: str) -> None:
    first = _quotables(text)[0]
    assert first.lead.endswith(("?", "？"))
    assert "scissors" in first.shown or "剪刀" in first.shown


_TALK = (
    "Time: 2031-05-04 16:00\n"
    "Mira Holt: Hey Jon! Could you measure the window in the wheelhouse for me? Thanks!\n"
    "Jon Vask: Sure. It is eighty by sixty centimetres, and the frame is oak. The old one was rotten through and "
    "through, so we threw it out last autumn together with the bench, as the harbour master asked us to do.\n"
    "Mira Holt: Great! Do you know who has the key?\n"
    "Jon Vask: The cook has it.\n"
)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("How large is the window in the wheelhouse?", "Jon Vask: Sure. It is eighty"),
        ("What happened to the old one?", "Jon Vask: The old one was rotten"),
        ("Who has the key?", "Do you know who has the key? Jon Vask: The cook has it."),
    ],
)
def test_what_is_said_in_a_conversation_is_told_with_who_says_it_and_what_was_asked(question: str, said: str) -> None:
    assert said in _first(question, _TALK)


def test_lines_of_names_and_values_are_no_conversation() -> None:
    text = "Type: time\nDefault: 5 s\nType: size\nDefault: what you want\n"
    assert [item.told for item in _quotables(text)] == text.splitlines()


def test_a_question_in_a_paragraph_stands_before_what_answers_it() -> None:
    found = _quotables("The lamp is old. Why does it flicker? The wick is wet. Dry it.\n")
    assert [(item.lead, item.shown) for item in found][1] == ("Why does it flicker?", "The wick is wet.")
    assert not any(item.asks for item in found)


def test_captions_and_notes_in_brackets_are_not_quoted() -> None:
    assert not _quotables("Figure 19.1.\n\n[Lighthouse manual, version 3]\n\n图 3-2\n")


def test_a_sentence_goes_on_with_the_one_that_points_back_to_it() -> None:
    text = "While it smears, the server sends a special refid. This refid is of the form 254.x.y.z. The sea is wide."
    listed = shortlist("What refid is sent while the server smears?", _quotables(text), {})
    cosines = np.where(["refid" in sentence.shown for _, sentence in listed.items], 0.8, 0.1).tolist()
    assert choose(listed, 1, cosines)[0].shown.endswith("254.x.y.z.")


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        (
            "The sea is wide. Oil for the lamp stands in the cellar. A lamp burns nine litres a night. Gulls sleep.",
            "Oil for the lamp stands in the cellar. A lamp burns nine litres a night.",
        ),
        ("The lamp is old.\n\nA lamp burns nine litres a night.", "A lamp burns nine litres a night."),
        (f"A lamp burns nine litres a night. The lamp {'shines far ' * 40}.", "A lamp burns nine litres a night."),
        (
            "Ann: Is the lamp lit?\nBen: A lamp burns nine litres a night.\nAnn: My lamp burns less.",
            "A lamp burns nine litres a night.",
        ),
    ],
    ids=["paragraph", "another-paragraph", "too-long", "another-speaker"],
)
def test_a_short_quote_goes_on_with_the_sentences_beside_it_that_speak_of_the_question(text: str, quote: str) -> None:
    listed = shortlist("How many litres does a lamp burn a night?", _quotables(text), {})
    cosines = np.where(["nine" in sentence.shown for _, sentence in listed.items], 0.9, 0.2).tolist()
    first, *others = choose(listed, 3, cosines)
    assert first.shown.removeprefix("Ben: ") == quote
    assert not any("nine" in other.shown for other in others)


def test_a_quote_that_says_little_of_the_question_goes_on_with_whatever_comes() -> None:
    text = "Some oil is kept by the door.\n\nNine cans must be enough.\n\n## Gulls\n\nThey sleep on the roof."
    question = "How much oil should somebody have in store before winter storms begin?"
    listed = shortlist(question, _quotables(f"Winter storms come in store for us.\n\n## Oil\n\n{text}"), {})
    cosines = np.where(["door" in sentence.shown for _, sentence in listed.items], 0.9, 0.1).tolist()
    assert choose(listed, 1, cosines)[0].shown == "Some oil is kept by the door. Nine cans must be enough."


def test_a_quoted_option_does_not_run_on_into_the_next_ones() -> None:
    text = "## OPTIONS\n\n- `-o, --oil`: Take this oil.\n- `-w, --wick`: Take this wick.\n"
    listed = shortlist("What fuel does trim-lamp burn in long winter nights?", _quotables(text), {})
    cosines = np.where(["this oil" in sentence.shown for _, sentence in listed.items], 0.9, 0.1).tolist()
    assert choose(listed, 1, cosines)[0].shown == "`-o, --oil`: Take this oil."


@pytest.mark.parametrize(
    ("question", "is_held"),
    [
        ("How do I export a drawing to Skerrish?", True),
        ("How did I export a drawing in May?", True),
        ("How do I export a drawing to Mullings?", False),
        ("Wie exportiere ich eine Zeichnung nach MullDraw?", False),
        ("怎样导出到 Mullings？", False),
        ("HOW CAN I EXPORT A DRAWING?", True),
        ("WIE EXPORTIERE ICH EINE ZEICHNUNG?", True),
        ("Is it OK to export a drawing at 9 AM?", True),
        ("A question: Does anything export a drawing?", True),
    ],
)
def test_what_never_says_a_name_of_the_question_is_farther_from_it(question: str, is_held: bool) -> None:
    text = "A drawing is exported with `File > Export`.\n\nSkerrish is one of the forms in which it can be kept."
    listed = shortlist(question, _quotables(text), {})
    assert listed.is_name_lost is not is_held
    assert (answer_margin(listed, [0.5] * len(listed.items)) > 0.0) is is_held


@pytest.mark.parametrize(
    ("name", "written", "is_lost"),
    [
        ("Dvorak", "Dvořák", False),
        ("Erdoğan", "Erdogan", False),
        ("WiFi", "Wi-Fi", False),
        ("Wi-Fi", "WiFi", False),
        ("Git Hub", "GitHub", False),
        ("GitHub", "Git Hub", False),
        ("Postgres", "PostgreSQL", False),
        ("PostgreSQL", "Postgres", False),
        ("Companies", "company", False),
        ("USA", "U.S.A.", False),
        ("USA", "United States of America", False),
        ("United Nations", "UN", False),
        ("Kubernetes", "Kubernetes's", False),
        ("Nova", "innovation", True),
        ("UK", "under King", True),
        ("Mullings", "mulled", True),
    ],
)
def test_a_name_that_is_written_otherwise_is_not_lost(name: str, written: str, is_lost: bool) -> None:
    listed = shortlist(f"How is a drawing sent to {name}?", _quotables(f"A drawing is sent by {written} in May."), {})
    assert listed.is_name_lost is is_lost


def test_what_documents_in_another_language_call_otherwise_is_not_lost() -> None:
    text = "The capital of Germany is Berlin, and it has been the seat of the government since 1999."
    assert not shortlist("Quelle est la capitale de l'Allemagne ?", _quotables(text), {}).is_name_lost


def test_quotes_that_grow_towards_each_other_tell_nothing_twice() -> None:
    text = "The oil is old. Some is by the door. More of it is in the cellar. It burns well. The gulls like it."
    listed = shortlist("How much oil should somebody have before winter?", _quotables(text), {})
    cosines = np.where([s.shown[:3] in ("The", "It ") for _, s in listed.items], 0.9, 0.1).tolist()
    told = " ".join(quote.shown for quote in choose(listed, 4, cosines))
    assert all(told.count(sentence) <= 1 for sentence in ("by the door", "in the cellar", "burns well", "gulls"))


def test_what_is_said_of_a_term_is_not_told_twice() -> None:
    text = "`-n`: Sends the full name.\n\nBy default it is cut off.\n\nEnd.\n"
    assert [item.lead for item in _quotables(text)][1].count("-n") == 1


def test_a_code_at_the_end_of_a_sentence_is_one() -> None:
    text = "If the command cannot run, the return code is 127. A return code above 128 means that a signal ended it."
    assert "127" in _first("What is the return code when the command cannot run?", text)


def test_a_term_of_a_list_item_explains_nothing_below_the_list() -> None:
    leads = {item.shown: item.lead for item in _quotables("- `-q`: Say nothing.\n\n  More on it.\n\nThe lamp burns.\n")}
    assert leads == {"`-q`: Say nothing.": "", "More on it.": "`-q`", "The lamp burns.": ""}


def test_a_row_is_told_with_the_columns_of_a_table_that_began_in_a_chunk_before() -> None:
    text = "| `P-1` | 3 EUR |\n| P-2 | 4 EUR |\n\nEnd.\n\n| x | y |\n"
    chunk = Chunk("chunk-1", "doc-1", 0, text, 99, 0, len(text), columns=("Part", "Price"))
    told = [item.shown for item in quotable_sentences([RetrievedChunk(chunk, "a.md", "1", ())])]
    assert told == ["Part: `P-1`; Price: 3 EUR", "Part: P-2; Price: 4 EUR", "End.", "x; y"]


def test_the_title_of_a_table_ends_with_the_table() -> None:
    table = "Table 5.6 Sizes of lamps\n\n| Lamp | Size |\n|---|---|\n| Brass | 12 |\n\n"
    leads = {item.shown: item.lead for item in _quotables(f"{table}A brass lamp is heavy.\n\nEnd.\n")}
    assert leads["Lamp: Brass; Size: 12"] == "Table 5.6 Sizes of lamps"
    assert leads["A brass lamp is heavy."] == ""
    # Where the table is a part of what is said of a term, the rest of it still belongs to the term.
    within = _quotables(f"`--size`\n\nHow large it is.\n\n{table.partition(chr(10))[2]}The largest wins.\n\nEnd.\n")
    assert "--size" in next(item.lead for item in within if item.shown == "The largest wins.")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("To show which ships are near, run\n\n```\nkeeper --ships\n```\n\nMore.\n", "`keeper --ships`"),
        ("要显示附近的所有船只，请执行\n\n```\nkeeper --ships\n```\n\n完。\n", "`keeper --ships`"),
        ("Um die Schiffe zu zeigen, geben Sie ein\n\n```\nkeeper --ships\n```\n", "`keeper --ships`"),
    ],
)
def test_a_sentence_that_breaks_off_before_code_stands_before_the_code(text: str, command: str) -> None:
    first = _quotables(text)[0]
    assert first.shown == command
    assert first.lead == text.partition("\n")[0]


def test_a_chinese_question_finds_code_by_what_leads_in_to_it() -> None:
    text = "要显示附近的所有船只，请执行\n\n```\nkeeper --ships\n```\n\n灯塔在 `/dev/tower` 上发光，船只很多。\n"
    assert "keeper --ships" in _first("哪个命令显示附近的所有船只？", text)


_GERMAN = (
    "Die Datei `/etc/turm.conf` steuert, welche Lampen der Turm von Hand oder mit der Uhr schaltet.\n\n"
    "`-f`: bleibt im Vordergrundmodus und wird nicht zum Dienst.\n\n`-n`: kürzt den Namen.\n\n"
    "Der voreingestellte Modus ist »nachtlicht«. Gelöschte Lampen werden nicht gezählt.\n"
)


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Welche Option lässt den Turm im Vordergrund laufen?", "`-f`"),
        ("Welcher Modus ist voreingestellt?", "nachtlicht"),
        ("Mit welcher Konfigurationsdatei wird die Lampe gesteuert?", "/etc/turm.conf"),
    ],
)
def test_german_words_count_by_their_stems_and_as_parts_of_longer_ones(question: str, said: str) -> None:
    assert said in _first(question, _GERMAN)


@pytest.mark.parametrize(
    "question",
    [
        "Which command makes a collection in {}?",
        "{} 用哪个命令创建集合？",
        "Welcher Befehl legt in {} eine Sammlung an?",
    ],
)
def test_a_question_whose_name_stands_nowhere_needs_more_to_be_answered(question: str) -> None:
    quotables = _quotables("In TowerDB legt der Befehl `make` eine Sammlung an.\n\nThe keeper makes a collection.\n")
    listed = [shortlist(question.format(name), quotables, {}) for name in ("TowerDB", "LampDB")]
    known, unknown = (answer_margin(item, [0.3] * len(item.items)) for item in listed)
    assert unknown < known


_SIGNALS = (
    "# Signals\n\nThe keeper overrides these signals:\n\n| `HALT` | Finish the round, then sleep. |\n| --- | --- |\n"
    "| `LAMP1` | Put out the lamp of the first floor. |\n| `LAMP2` | Light all lamps. |\n"
)


def test_a_table_without_a_header_has_its_first_row_as_a_row() -> None:
    assert [quote.shown for quote in _quotables(_SIGNALS)] == [
        "`HALT`: Finish the round, then sleep.",
        "`LAMP1`: Put out the lamp of the first floor.",
        "`LAMP2`: Light all lamps.",
    ]


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        ("What does LAMP1 do to the keeper's lamps?", _SIGNALS, "Put out"),
        (
            "media 目录是用来做什么的？",
            "这个目录里有很多目录。\n\n| 目录 | 内容 |\n| --- | --- |\n| media | 挂载点 |\n",
            "挂载点",
        ),
        (
            "How many ships does Harbour.Slots hold?",
            "## Ships\n\n`Harbour.Slots`: A number, 12 at first.\n\nIt is large.",
            "12",
        ),
    ],
)
def test_what_explains_the_name_that_a_question_says_comes_first(question: str, text: str, said: str) -> None:
    assert said in _first(question, text)


def test_a_default_on_its_own_line_is_told_of_the_term_above_it() -> None:
    oil = "LAMP_OIL\n\nWhat burns in the lamp.\n\nDefault: `colza`\n\n"
    text = f"{oil}LAMP_WICK\n\nWhat it burns on.\n\nDefault: `flat`\n\nEnd."
    told = [quote.told for quote in _quotables(text)]
    assert "LAMP_OIL: What burns in the lamp. Default: `colza`" in told
    assert any(text.startswith("LAMP_WICK") and text.endswith("Default: `flat`") for text in told)


def test_words_that_stand_nowhere_make_an_answer_less_likely() -> None:
    sentences = _quotables("The keeper of the harbour lights the lamp in the evening.")
    listed = [shortlist(f"When does the keeper light the {word}?", sentences, {}) for word in ("lamp", "rocket")]
    near, far = (answer_margin(item, [0.3] * len(item.items)) for item in listed)
    assert far < near


def test_a_sentence_that_points_to_the_command_above_it_is_told_with_it() -> None:
    text = "Wake the keeper:\n\n```\n$ lamp reset\n```\n\nBy default, this will put the lamp out. It is dark then."
    told = [quote.told for quote in _quotables(text)]
    assert "`$ lamp reset` By default, this will put the lamp out." in told


def test_a_list_of_definitions_may_stand_in_a_quotation() -> None:
    text = "> lamp_life (default: 5 days)\n>\n> How long a lamp burns before it is replaced.\n>\n> `>>> lamp`\n"
    assert _quotables(text)[0].told == "lamp_life (default: 5 days) How long a lamp burns before it is replaced."
    assert _quotables(text)[1].shown == "`>>> lamp`"


def test_a_value_in_a_paragraph_of_its_own_is_told_with_what_has_it() -> None:
    text = "The wick sets how bright the lamp is.\n\nThe value must be between 1 and 9.\n"
    assert _quotables(text)[-1].told == "The wick sets how bright the lamp is. The value must be between 1 and 9."
    assert _quotables("# Wick\n\nIt glows.\n\n## Oil\n\nThe value is 1.\n")[-1].shown == "The value is 1."


def test_an_explanation_without_a_full_stop_is_no_further_term() -> None:
    text = "-a\n\nLight the lamp at once\n\n-s\n\nPut the lamp out.\n\nEnd."
    told = [quote.told for quote in _quotables(text)]
    assert "-a Light the lamp at once" in told
    assert "-s Put the lamp out." in told


@pytest.mark.parametrize(
    ("question", "text", "said"),
    [
        (
            "Which signal puts the lamp out cold?",
            "The `KILL` signal is sent to all keepers of the lamp.\n\nThe lamp knows these signals:\n\n"
            "- `QUIT`: Goes out cold, at once",
            "QUIT",
        ),
        (
            "What does a leading ! mean in a pattern of the lamp?",
            "A leading slash in a pattern of the lamp means all lamps.\n\nA prefix `!` negates the pattern.",
            "negates",
        ),
    ],
)
def test_what_a_question_asks_for_is_found_where_it_is_explained(question: str, text: str, said: str) -> None:
    assert said in _first(question, text)


def test_the_words_that_ask_are_no_words_of_a_chinese_question() -> None:
    sentences = _quotables("看守人不知道点灯时要选哪个命令。")
    weights = shortlist("哪个命令点灯？", sentences, {}).asked.weights
    assert weights.keys() == {"命令", "点灯"}


def test_a_question_in_another_language_goes_by_meaning_rather_than_by_names() -> None:
    text = "`LAMP2`: 20 hours are what it needs to cool, by the `LAMP2` book.\n\nIt burns for 30 hours at most.\n"
    listed = shortlist("LAMP2 最多亮多少小时？", _quotables(text, "zh"), {})
    cosines = np.where(["30" in sentence.shown for _, sentence in listed.items], 0.48, 0.4).tolist()
    assert "30 hours" in choose(listed, 1, cosines)[0].shown


def test_a_sentence_is_farther_where_its_chunk_has_none_of_the_names_asked_of() -> None:
    named, other = "The `LampDB` lamp has a wick.", "A string holds 30 lamps at most."
    chunks = [
        RetrievedChunk(Chunk(f"chunk-{text}", f"doc-{text}", 0, text, 9, 0, len(text), (), None), "a.md", "1", ())
        for text in (named, other)
    ]
    listed = shortlist("How many lamps does a LampDB string hold?", quotable_sentences(chunks), {})
    near_named, near_other = (
        answer_margin(listed, [0.6 if sentence.shown == text else 0.2 for _, sentence in listed.items])
        for text in (named, other)
    )
    assert near_named > near_other


def test_a_setting_in_a_heading_is_told_with_its_default_and_what_it_means() -> None:
    text = "### LAMP_HOURS\n\nDefault: `16`\n\nHow long the lamp burns. It is dark then.\n\n### Oil\n\nIt burns.\n"
    told = [quote.told for quote in _quotables(text)]
    assert "LAMP_HOURS (Default: `16`) How long the lamp burns." in told
    assert told[-1] == "Oil It burns."
    chunk = Chunk("chunk-2", "doc-1", 1, "Default: `16`\n\nHow long it burns.", 9, 0, 30, ("Lamps", "LAMP_HOURS"), None)
    assert quotable_sentences([RetrievedChunk(chunk, "a.md", "1", ())])[-1].told.startswith(
        "LAMP_HOURS (Default: `16`) How"
    )


def test_a_default_that_stands_apart_is_told_with_what_the_setting_means() -> None:
    text = (
        "lockfile_timeout\n\nDefault: 30m\n\nAn older lock file was left behind.\n\nmode\n\nThe mode of the file.\n\n"
        "## oil_level\n\n- Default: 9.0\n\nBelow it the lamp dims.\n\n`wick`\n\nIts length.\n"
    )
    told = [quote.told for quote in _quotables(text)]
    assert "lockfile_timeout (Default: 30m) An older lock file was left behind." in told
    assert "The mode of the file." in told
    assert "oil_level (Default: 9.0) Below it the lamp dims." in told
    assert told[-1] == "`wick` Its length."


def test_a_long_default_is_told_with_what_the_setting_means_too() -> None:
    default = "Default: `['" + "lamp.handlers.Wick', '" * 5 + "lamp.handlers.Oil']`"
    told = [quote.told for quote in _quotables(f"## LAMP_HANDLERS\n\n{default}\n\nWhat lights the lamp.\n")]
    assert told == [f"LAMP_HANDLERS {default}", f"LAMP_HANDLERS ({default}) What lights the lamp."]


def test_a_line_of_manual_pages_says_nothing() -> None:
    told = [quote.told for quote in _quotables("The lamp burns oil.\n\nlamp(1), `lamp-trim(8)`\n")]
    assert told == ["The lamp burns oil."]


@pytest.mark.parametrize(
    ("question", "statement"),
    [
        ("Which picture format is made when nothing is configured?", "The default is `png`."),
        ("How long does a lock last unless told otherwise?", "It defaults to 30 minutes."),
        ("没有设置时端口是多少？", "默认值是 8080。"),
        ("Welcher Port gilt, wenn nichts angegeben ist?", "Der Standardwert ist 8080."),
    ],
)
def test_a_default_may_be_asked_for_in_other_words(question: str, statement: str) -> None:
    assert any(form.search(statement) for form in expected_forms(question))


def test_what_an_option_does_is_told_by_its_own_entry_though_others_sound_more_like_the_question() -> None:
    text = "-W\n\nStop trim-lamp where the lamp goes out.\n\n-E\n\nTake no saved wick, but cut a new one.\n"
    chunk = Chunk("chunk-1", "doc-1", 0, text, 9, 0, len(text), (), None)
    quotables = quotable_sentences([RetrievedChunk(chunk, "a.md", "1", ())])
    listed = shortlist("What does -E mean for trim-lamp?", quotables, {})
    near = [0.4 if sentence.lead == "-E" else 0.6 for _, sentence in listed.items]
    assert choose(listed, 1, near)[0].told == "-E Take no saved wick, but cut a new one."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("- Trim the wick.\n- Fill the lamp.", "Trim the wick. Fill the lamp."),
        (
            "1. trim the wick\n2. fill the lamp (to the brim.)\n   1. light it",
            "trim the wick; fill the lamp (to the brim.) light it",
        ),
        ("two tools:\n  * scissors\n  * a funnel", "two tools: scissors; a funnel"),
        ("> - trim the wick\n> - fill the lamp", "trim the wick; fill the lamp"),
        ("- 剪灯芯\n- 加油。\n- 点灯", "剪灯芯；加油。点灯"),
        ("Keep 3 - 4 wicks\nin a dry place.", "Keep 3 - 4 wicks in a dry place."),
    ],
)
def test_items_quoted_together_read_like_sentences(text: str, shown: str) -> None:
    assert shown_text(text) == shown


def test_a_broken_line_of_chinese_is_quoted_without_a_space() -> None:
    [item, other] = _quotables(
        "* 灯塔看守人每天黄昏之前必须检查所有的灯芯以及储存的灯\n  油。\n* 使用 Lantern\n  软件。\n", "zh"
    )
    assert item.shown == "灯塔看守人每天黄昏之前必须检查所有的灯芯以及储存的灯油。"
    assert other.shown == "使用 Lantern 软件。"


def test_placeholder_that_a_question_names_is_explained_by_its_item() -> None:
    text = (
        "Placeholders such as %C and %R stand in the menu.\n\n- `%C`: The cursor goes here.\n\n- `%R`: Opens a box.\n"
    )
    listed = shortlist("What opens the placeholder %R in the menu?", _quotables(text), {})
    near = [0.6 if "such as" in sentence.shown else 0.4 for _, sentence in listed.items]
    assert choose(listed, 1, near)[0].told == "`%R`: Opens a box."
