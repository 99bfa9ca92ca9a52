"""Reads transcripts of recordings: WebVTT and SubRip captions become paragraphs, with speaker and start time.

Captions break sentences wherever a screen was full, between numbers and times. Consecutive speech of one speaker
becomes one paragraph that begins with the speaker's name and the time in the recording.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from itertools import pairwise

_CLOCK = r"(?:(?:(\d{1,3}):)?(\d{1,2}):(\d{2})[.,]\d{1,3})"
_TIMING = re.compile(rf"^[ \t]*{_CLOCK}[ \t]*-->[ \t]*{_CLOCK}.*$", re.MULTILINE)
_VOICE = re.compile(r"<v(?:\.[^\s>]*)?[ \t]+([^>]+)>")
# WebVTT's styles and times of single words; SubRip's screen positions.
_TAG = re.compile(r"</?[A-Za-z0-9][^<>]*>|\{\\[^{}]*\}")
_ASIDE = re.compile(r"\s*(?:NOTE|STYLE|REGION)\b")
_NAMED = re.compile(r"(?P<name>[^\W\d_][\w .,'’()-]{0,60}?): +(?=\S)")
_SENTENCE_ENDS = re.compile(r"[.!?…。！？؟][\"'”’」』)]*$")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\u3000-\u303f\uff00-\uff60]")
_LONG_SILENCE_SECONDS = 4
_FULL_PARAGRAPH_CHARACTERS = 600


@dataclass(frozen=True, slots=True)
class _Cue:
    start: int
    end: int
    speaker: str
    lines: tuple[str, ...]


def transcript_markdown(text: str) -> str | None:
    """Return captions as paragraphs, each from a new speaker or after a silence; None if there are no captions."""
    cues = _with_named_speakers(list(_cues(text)))
    if not cues:
        return None
    # Roll-up captions repeat the lines before.
    repeats = sum(later.lines[0] in earlier.lines for earlier, later in pairwise(cues))
    rolls = repeats * 4 >= len(cues)
    paragraphs: list[str] = []
    said, speaker, end, start = "", "", 0, 0
    shown: tuple[str, ...] = ()
    for cue in cues:
        # Machine-made captions may have no sentence ends.
        most = _FULL_PARAGRAPH_CHARACTERS * (1 if _SENTENCE_ENDS.search(said) else 3)
        if said and (cue.speaker != speaker or cue.start - end >= _LONG_SILENCE_SECONDS or len(said) >= most):
            paragraphs.append(_paragraph(speaker, start, said))
            said = ""
        if not said:
            speaker, start = cue.speaker, cue.start
        for line in cue.lines:
            if not (rolls and line in shown):
                said = _joined(said, line)
        shown, end = cue.lines, cue.end
    paragraphs.append(_paragraph(speaker, start, said))
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _cues(text: str) -> Iterator[_Cue]:
    timings = list(_TIMING.finditer(text))
    for number, timing in enumerate(timings):
        end = timings[number + 1].start() if number + 1 < len(timings) else len(text)
        # A caption's text ends at an empty line, except in malformed files.
        first, *others = text[timing.end() + 1 : end].split("\n\n")
        if others and number + 1 < len(timings):
            # The number or name of the next caption.
            others[-1] = others[-1].rstrip("\n").rpartition("\n")[0]
        words = "\n".join((first, *(other for other in others if not _ASIDE.match(other))))
        voice = _VOICE.search(words)
        speaker = unescape(" ".join(voice[1].split())) if voice else ""
        lines = (" ".join(unescape(_TAG.sub("", line)).split()) for line in words.split("\n"))
        kept = tuple(line for line in lines if line)
        if kept:
            yield _Cue(_seconds(*timing.group(1, 2, 3)), _seconds(*timing.group(4, 5, 6)), speaker, kept)


def _seconds(hours: str | None, minutes: str, seconds: str) -> int:
    return int(hours or 0) * 3600 + int(minutes) * 60 + int(seconds)


def _with_named_speakers(cues: list[_Cue]) -> list[_Cue]:
    """Return captions with speakers, whose names precede their words; a name must occur more than once."""
    names = Counter(match["name"] for cue in cues if (match := _NAMED.match(cue.lines[0])))
    named: list[_Cue] = []
    for cue in cues:
        match = None if cue.speaker else _NAMED.match(cue.lines[0])
        if match and names[match["name"]] > 1:
            cue = _Cue(cue.start, cue.end, match["name"], (cue.lines[0][match.end() :], *cue.lines[1:]))
        named.append(cue)
    return named


def _joined(said: str, line: str) -> str:
    if not said:
        return line
    # A dash marks another speaker.
    if line.startswith(("- ", "– ", "-", "–")) and len(line) > 1 and not line[1].isdigit():
        return f"{said}\n{line}"
    return said + ("" if _UNSPACED.match(said[-1]) and _UNSPACED.match(line) else " ") + line


def _paragraph(speaker: str, start: int, said: str) -> str:
    if not said:
        return ""
    minutes, seconds = divmod(start, 60)
    clock = f"{minutes // 60}:{minutes % 60:02}:{seconds:02}" if minutes >= 60 else f"{minutes}:{seconds:02}"
    return f"{speaker} ({clock}): {said}" if speaker else f"({clock}) {said}"
