"""Says which parts of a chunk are read for names, and which of its sentences say something.

A chunk's text comes in; the same text goes out with blanks for what names nothing: program text, bibliographic
references, lines of links and the labels of tables. Places stay as they are. Names stand in these parts, too, but a
page's listing, its bibliography and its navigation say nothing of them that anybody asks, and such names soon are the
best connected ones. What program text defines is read all the same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from heliograph.text.language import HAN, function_words
from heliograph.text.name_spans import COMMON_WORDS, SHOUTED_WORDS, STRUCTURE_WORDS, NameSpan, is_identifier

_FENCED = re.compile(
    r"^[ \t>]{0,12}(?P<fence>```+|~~~+)[^\n]*\n(?P<inside>.*?)(?:^[ \t>]{0,12}(?P=fence)[`~]*[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
_LONG_IN_HAN, _LEAST_WORDS, _LEAST_LOWER = 16, 4, 2
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_HAN = re.compile(rf"[{HAN}]")
# Preformatted prose (a letter, an RFC) is no program.
_PROSE_WORDS, _PROSE_SHARE, _PROSE_HAN_SHARE = 20, 0.25, 0.5

# Listings lose their fences where a long one is cut into chunks, and plain text never had any.
_CODE_LINE = re.compile(
    r"\s*(?:(?:async def|class|const|def|fn|func|function|import|let|package|static|struct|using|var) [\w(]"
    r"|return\b|from [\w.]+ import\b|(?:if|for|while|elif|with|except|else|try|switch)\b.*[:{]\s*$"
    r"|@\w+[\w.(]*|#include|#define|[\w.\[\]'\"*]+ ?(?:[-+*/|&]?=|:=) ?\S|.*[;{}]\s*$|[$>%] ?\w|[)}\]]+[,;]?\s*$"
    r"|[\w.]+\(.*(?:[),:\[{(]|\),)\s*$"
    r"|['\"][^'\"]*['\"]: ?\S.*,?$|(?://|--|/\*|\*/|\* ) ?\S|</?\w+[^>]*>)"
)
_BLOCK = re.compile(r"[^\n]+(?:\n[ \t]*[^\s][^\n]*)*")
_LEAST_CODE_LINES, _CODE_SHARE = 3, 0.6

_DEFINED = re.compile(
    r"^[ \t>]*(?:(?:export|public|private|protected|static|final|abstract|async|pub|default)[ \t]+){0,3}"
    r"(?:def|class|function|func|fn|struct|interface|trait|enum|module|package|namespace"
    r"|create[ \t]+(?:or[ \t]+replace[ \t]+)?(?:table|view|function|index|type))[ \t]+(?P<name>[A-Za-z_][\w.]{2,60})",
    re.MULTILINE | re.IGNORECASE,
)

_CITATION_MARK = re.compile(
    r"\b(?:doi|DOI|et al|ISSN|ISBN)\b|\bEds?\."
    r"|\[(?:Google Scholar|PubMed|Cross ?Ref|Medline|PMC[^\]]*|Web of Science)"
    r"|[(\s](?:1[5-9]|20)\d\d[a-z]?\)?[.,;:]|\((?:1[5-9]|20)\d\d[a-z]?\)"
    r"|\b\d{1,4} ?(?:\(\d[\d–/-]*\))? ?[:,] ?(?:pp?\. ?)?[eS]?\d{1,5} ?[–-] ?\d{1,5}"
    r"|\bpp?\. ?\d|\b[Vv]ol\. ?\d|\b(?:Retrieved|Accessed|Archived) (?:on |from |\d)"
    r"|\bUniversity Press\b|\bJournal of\b"
    r"|[^\W\d_]{2,},? (?:[A-Z]\.? ?-?){1,3}(?=[,;&.]| and\b)|……|\[[JMDCN](?:/OL)?\]"
)
_LEAST_MARKS, _LETTERS_PER_MARK = 3, 70
_LINKS_ALONE = re.compile(r"[\s*+•|>·,;/#\d.-]*(?:!?\[[^\]\n]*\](?:\([^)\n]*\)|\[[^\]\n]*\])?[\s*+•|>·,;/-]*)+")
_TARGET = re.compile(r"\]\([^)\n]*\)|https?://\S+")
_LINE = re.compile(r"[^\n]+")

_TABLE_RULE = re.compile(r"\s*\|?[ \t:|-]*-{3,}[ \t:|-]*")
_CELL = re.compile(r"[^|]+")


def prose_of(text: str) -> str:
    """Return a chunk's text with blanks for program text, references, lines of links and labels of tables."""
    blanks = list(_blank_spans(text))
    if not blanks:
        return text
    parts: list[str] = []
    place = 0
    for start, end in sorted(blanks):
        if end > place:
            parts.append(text[place : max(start, place)])
            # Line ends stay, since they tell paragraphs apart.
            parts.append("".join("\n" if c == "\n" else " " for c in text[max(start, place) : end]))
            place = end
    return "".join(parts) + text[place:]


def says_something(sentence: str) -> bool:
    """Return whether a sentence states something, and is no heading, label, caption or cell."""
    if sentence[:1] in "#|":
        return False
    if len(_HAN.findall(sentence)) > len(sentence) // 4:
        return sentence[-1] in "。！？；：，.!?;:" or len(sentence) > _LONG_IN_HAN
    words = _WORD.findall(sentence)
    # "It speaks MQTT." is a sentence, "Common Log Format" none.
    is_closed = sentence.rstrip("\"'”’»)*_`")[-1:] in {".", "!", "?"}
    return len(words) + is_closed >= _LEAST_WORDS and sum(word.islower() for word in words) + is_closed >= _LEAST_LOWER


def _blank_spans(text: str) -> Iterator[tuple[int, int]]:
    if "```" in text or "~~~" in text:
        for block in _FENCED.finditer(text):
            if not _is_prose(block["inside"]):
                yield from _around_definitions(text, *block.span())
    for block in _BLOCK.finditer(text):
        inside = block.group().splitlines()
        if len(inside) >= _LEAST_CODE_LINES and not inside[0].lstrip().startswith(("|", "- ", "* ", "#", ">")):
            code = sum(_CODE_LINE.match(line) is not None for line in inside)
            if code >= _CODE_SHARE * len(inside):
                yield from _around_definitions(text, *block.span())
    lines = [match.span() for match in _LINE.finditer(text)]
    for number, (start, end) in enumerate(lines):
        line = text[start:end]
        if "](" in line and _LINKS_ALONE.fullmatch(line):
            yield start, end
        elif line.lstrip().startswith("|"):
            following = text[slice(*lines[number + 1])] if number + 1 < len(lines) else ""
            yield from _labels(line, start, is_header=_TABLE_RULE.fullmatch(following) is not None)
        elif any(character.isdigit() for character in line):
            marks = sum(1 for _ in _CITATION_MARK.finditer(line))
            if marks >= _LEAST_MARKS and marks * _LETTERS_PER_MARK >= len(_TARGET.sub("", line)):
                yield start, end


def _around_definitions(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in _DEFINED.finditer(text, start, end):
        if is_identifier(match["name"]):
            yield start, match.start("name")
            start = match.end("name")
    yield start, end


def _is_prose(inside: str) -> bool:
    words = _WORD.findall(inside)
    han = len(_HAN.findall(inside))
    if han * 2 > len(words) and han >= _PROSE_WORDS:
        return han >= _PROSE_HAN_SHARE * len("".join(inside.split()))
    said = sum(word.lower() in function_words() for word in words)
    return len(words) >= _PROSE_WORDS and said >= _PROSE_SHARE * len(words)


def _labels(line: str, start: int, *, is_header: bool) -> Iterator[tuple[int, int]]:
    """Yield the cells of a row that only label others: those that end in a colon, and a header's."""
    cells = list(_CELL.finditer(line))
    has_colon = any(cell.group().rstrip().endswith((":", "：")) for cell in cells)
    for cell in cells:
        written = cell.group().strip()
        is_label = written.endswith((":", "：")) or (written.startswith("[") and written.endswith("]"))
        if is_label or (is_header and not has_colon and not is_identifier(written.strip("`"))):
            yield start + cell.start(), start + cell.end()


# Who speaks in a chat log or interview: lines such as "AdamSmith: Hi!" in which a label comes back.
#
# A text in, spans of the speakers' names out. A label written as one word is the name it is made of ("AdamSmith" is
# Adam Smith), since questions are asked about persons and not about accounts.

_LABEL = re.compile(
    r"^[ \t>*_-]{0,8}([^\W\d_][\w'’.-]{1,30}(?: [^\W\d_][\w'’.-]{0,20}){0,2})\**(?::\**[ \t]+|：)(?P<said>[^\n]*)",
    re.MULTILINE,
)
_CAMEL = re.compile(r"(?<=[a-zß-öø-ÿ])(?=[A-Z])")
_TWO_NAMES = re.compile(r"[^\W\d_a-z][a-zß-öø-ÿ]+-?[^\W\d_a-z][a-zß-öø-ÿ-]+")
# What somebody says ends as a sentence does, or with a picture or smiley; what a field holds does not.
_IS_SAID = re.compile(r"[.!?…。！？~\"”’]\s*$|[:;][ -]?[()D]\s*$|[^\w\s\x00-\u2fff\u3001-\uffef]\s*$")
_LEAST_TURNS = 2
_NO_SPEAKERS = COMMON_WORDS | STRUCTURE_WORDS | SHOUTED_WORDS
_LEAST_LINES, _TALK_SHARE = 4, 0.75


def speakers(text: str) -> dict[str, str]:
    """Return the labels of those who speak in a text, with their names; none in a text that is no conversation.

    A label that comes back is a speaker's, and one that two names are written into ("AdamSmith").
    """
    if ":" not in text and "：" not in text:
        return {}
    found = list(_LABEL.finditer(text))
    turns = Counter(match[1] for match in found)
    lines = sum(1 for line in text.splitlines() if line.strip())
    is_all_talk = len(found) >= _LEAST_LINES and len(found) >= _TALK_SHARE * lines
    said = sum(_IS_SAID.search(match["said"]) is not None for match in found)
    if not found or said * 2 < len(found):
        return {}
    is_talk = len(turns) >= _LEAST_TURNS and max(turns.values()) >= _LEAST_TURNS
    return {
        label: _CAMEL.sub(" ", label)
        for label, count in turns.items()
        if (label[0].isupper() or not label[0].isascii())
        and not _NO_SPEAKERS.issuperset(label.lower().split())
        and (is_all_talk or (is_talk and count >= _LEAST_TURNS) or _TWO_NAMES.fullmatch(label))
    }


def speaker_spans(text: str) -> Iterator[NameSpan]:
    """Yield every place where a speaker is named by the label, before what is said and in it."""
    labels = speakers(text)
    if labels:
        wanted = "|".join(re.escape(label) for label in sorted(labels, key=len, reverse=True))
        for match in re.finditer(rf"(?<!\w)(?:{wanted})(?!\w)", text):
            if "A" <= text[match.start()] <= "Z" or text[match.end() : match.end() + 1] in {":", "：", "*"}:
                yield NameSpan(labels[match.group()], match.start(), match.end(), "person")
