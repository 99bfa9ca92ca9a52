"""What was said in a recording is read as sentences, with speakers and times."""

from __future__ import annotations

from .samples import load

_MEETING = """WEBVTT

0f3c-1
00:00:02.000 --> 00:00:05.100
<v Mira Okafor>The pump of line &amp; tank two
leaks, so we</v>

0f3c-2
00:00:05.100 --> 00:00:08.000
<v Mira Okafor>order a new seal.</v>

NOTE nobody sees this

0f3c-3
01:02:08.500 --> 01:02:11.000 align:start
<v Tom Reyes>The seal costs <i>40</i> euros.</v>
"""


def test_captions_become_what_each_speaker_said() -> None:
    document = load("meeting.vtt", _MEETING)
    assert document.title == "meeting"
    assert document.text == (
        "Mira Okafor (0:02): The pump of line & tank two leaks, so we order a new seal.\n\n"
        "Tom Reyes (1:02:08): The seal costs 40 euros.\n"
    )


def test_names_before_what_is_said_are_speakers_where_they_come_again() -> None:
    text = "\n\n".join(
        f"{number}\n00:00:{number:02},000 --> 00:00:{number + 1:02},000\n{said}"
        for number, said in enumerate(
            ("Mira: Good day,", "Mira: all.", "Tom: Note: the\nvalve is shut.", "Tom: Bye."), 1
        )
    )
    assert load("a.srt", text).text == "Mira (0:01): Good day, all.\n\nTom (0:03): Note: the valve is shut. Bye.\n"


def test_captions_that_roll_up_are_read_once() -> None:
    text = (
        "WEBVTT\nKind: captions\n\n00:01.000 --> 00:02.000\nfirst we\n\n00:02.000 --> 00:02.010\nfirst we\n\n"
        "00:02.010 --> 00:04.000\nfirst we\nopen<00:03.000><c> the</c> lid\n\n00:04.000 --> 00:05.000\nopen the lid\n\n"
        "00:09.500 --> 00:11.000\nthen wait\n"
    )
    assert load("talk.vtt", text).text == "(0:01) first we open the lid\n\n(0:09) then wait\n"


def test_words_without_spaces_are_joined_without_spaces() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\n我们明天\n开会。\n\n2\n00:00:02,000 --> 00:00:03,000\n好的。\n"
    assert load("a.srt", text).text == "(0:01) 我们明天开会。好的。\n"


def test_text_without_captions_stays_as_it_is() -> None:
    assert load("a.vtt", "WEBVTT\n\nNothing was said.\n").text == "WEBVTT\n\nNothing was said.\n"


def test_words_after_an_empty_line_in_a_caption_are_kept_and_notes_are_not() -> None:
    text = "1\n00:00:01,000 --> 00:00:02,000\nStop it.\n\nNow.\n\n2\n00:00:03,000 --> 00:00:04,000\nGo.\n\nNOTE no\n"
    assert load("a.srt", text).text == "(0:01) Stop it. Now. Go.\n"
