"""Names and content phrases in a text, whatever mixture of English, Chinese and code it is.

Texts in, and per text its sentences with the names (`NameSpan`) and content phrases (`Phrase`) in them. Names come
from capitals and identifiers (`english_names`), Chinese tags (`chinese_names`) and marks: quotation marks, book title
marks, bold and code. Scripts that have neither capitals nor a segmenter here give marked terms and identifiers only.
No chat model, no state: the same text gives the same names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from heliograph.text.chinese import TaggedWord, tag_words
from heliograph.text.chinese_names import chinese_names, chinese_phrases
from heliograph.text.code_names import code_names
from heliograph.text.english_names import latin_names
from heliograph.text.language import HAN, is_chinese
from heliograph.text.lines import is_own_line
from heliograph.text.mixed_sentences import has_latin_grammar, mixed_words
from heliograph.text.name_cues import CALENDAR, COMMON_WORDS, STRUCTURE_WORDS
from heliograph.text.name_spans import NameSpan, spans_within, without_overlaps
from heliograph.text.name_words import CaseEvidence, is_identifier
from heliograph.text.sentences import sentence_spans

__all__ = ["NameSpan", "Phrase", "SentenceReading", "find_names", "phrases_outside", "read_texts"]

# Addresses, link targets and tags hold no names; they are blanked before words are read.
_NOT_PROSE = re.compile(
    r"https?://[!-~]+|www\.[!-~]+|\]\([^()\n]{0,500}\)|<[^<>\n]{1,200}>|(?<![\w.+-])[\w.+-]{1,64}@[\w.-]{1,255}|&[a-z]{2,8};"
)
_MARKED = re.compile(
    r"《(?P<work>[^《》\n]{1,60})》|“(?P<quote>[^“”\n]{2,60})”|\"(?P<plain>[^\"\n]{2,60})\"|「(?P<corner>[^「」\n]{2,40})」"
    r"|『(?P<double>[^『』\n]{2,40})』|«(?P<angle>[^«»\n]{2,60})»|(?<![\w*])\*\*(?P<bold>[^*\s][^*\n]{0,58}[^*\s])\*\*(?![\w*])|`(?P<code>[^`\n]{2,60})`"
)
_MARKED_WORDS = re.compile(r"[\w][\w'’.+#-]*")
_ENDS_SENTENCE = re.compile(r"[.!?,;:。！？，；：…]")
_HAN = re.compile(rf"[{HAN}]")
_HAN_RUN = re.compile(rf"(?<![{HAN}])[{HAN}]{{2,10}}(?![{HAN}])")
_KANA = re.compile(r"[\u3041-\u30ff]")
_OTHER_SCRIPT = re.compile(rf"[^\W\d_A-Za-z\u00c0-\u024f{HAN}]")
_NO_TERMS = COMMON_WORDS | STRUCTURE_WORDS
_LONGEST_HAN_TERM = 10
_LONGEST_TERM_WORDS = 6
_CODE_WORD = re.compile(r"[A-Za-z_][\w.:/-]{2,}(?:\(\))?")
_CODE_LITERALS = frozenset({"true", "false", "null", "none", "nil", "undefined"})

_UNCASED = HAN + r"\u0e00-\u0eff\u3041-\u30ff\uac00-\ud7af"
_PHRASE_WORD = re.compile(rf"[^\W\d_{_UNCASED}](?:[^\W_{_UNCASED}]|[-'’](?=\w))*|[^\s]")
_LONGEST_PHRASE = 4


@dataclass(frozen=True, slots=True)
class Phrase:
    """Content words that stand together and are no name.

    Attributes:
        text: What is written from `start` to `end`.
        start: First character.
        end: One past the last character.
        is_predicate: Whether it is a Chinese verb or adjective; always False where words are not tagged.
    """

    text: str
    start: int
    end: int
    is_predicate: bool = False


@dataclass(frozen=True, slots=True)
class _Tagged:
    """The words of a Chinese sentence; `is_mixed` where most letters are Latin, and are read by themselves."""

    words: list[TaggedWord]
    is_mixed: bool = False


@dataclass(frozen=True, slots=True)
class SentenceReading:
    """A sentence, its names and its content phrases; all places count from the start of the whole text."""

    start: int
    end: int
    names: tuple[NameSpan, ...]
    phrases: tuple[Phrase, ...]


def find_names(text: str) -> list[NameSpan]:
    """Return proper names, acronyms, identifiers and quoted terms, in order and without overlap, with repeats."""
    return [name for sentence in read_texts([text])[0] for name in sentence.names]


def read_texts(texts: Sequence[str]) -> list[list[SentenceReading]]:
    """Read texts; what comes out for one does not depend on the others, together they are read faster.

    Returns:
        One list of sentences per text, in order; empty for a text of white space.
    """
    prose = [_NOT_PROSE.sub(lambda match: " " * len(match.group()), text) for text in texts]
    spans = [_sentences(text) for text in texts]
    tagged = _tag_chinese(prose, spans)
    return [_read_text(number, text, spans[number], tagged) for number, text in enumerate(prose)]


def _sentences(text: str) -> list[tuple[int, int]]:
    """Return the sentences; a paragraph's first line that ends early of its own will is one, since it is a title."""
    spans: list[tuple[int, int]] = []
    for start, end in sentence_spans(text):
        begins_paragraph = not spans or text.count("\n", spans[-1][1], start) > 1
        line_end = text.find("\n", start, end) if begins_paragraph else -1
        if line_end > start and is_own_line(text, line_end):
            spans.append((start, start + len(text[start:line_end].rstrip())))
            start = end - len(text[line_end:end].lstrip())
        spans.append((start, end))
    return spans


def _read_text(
    number: int, text: str, spans: Sequence[tuple[int, int]], tagged: Mapping[tuple[int, int], _Tagged]
) -> list[SentenceReading]:
    evidence = CaseEvidence.of(text)
    marked = spans_within(_marked_terms(text, evidence), spans)
    return [
        _read_sentence(text, start, end, evidence, inside, tagged.get((number, start)))
        for (start, end), inside in zip(spans, marked, strict=True)
    ]


def _tag_chinese(texts: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]]) -> dict[tuple[int, int], _Tagged]:
    """Return the tagged words of every Chinese sentence, by number of text and start of sentence."""
    with_han = [number for number, text in enumerate(texts) if _HAN.search(text)]
    places = [(number, start, texts[number][start:end]) for number in with_han for start, end in spans[number]]
    chinese = [(*place, is_chinese(place[2])) for place in places if is_chinese(place[2]) or _may_be_mixed(place[2])]
    words = tag_words([sentence for _, _, sentence, _ in chinese])
    tagged: dict[tuple[int, int], _Tagged] = {}
    for (number, start, sentence, is_whole), found in zip(chinese, words, strict=True):
        if is_whole:
            tagged[number, start] = _Tagged(found)
        elif (mixed := mixed_words(sentence, found)) is not None:
            tagged[number, start] = _Tagged(mixed, is_mixed=True)
    return tagged


def _may_be_mixed(sentence: str) -> bool:
    return bool(_HAN.search(sentence)) and not _OTHER_SCRIPT.search(sentence) and not has_latin_grammar(sentence)


def _read_sentence(
    text: str,
    start: int,
    end: int,
    evidence: CaseEvidence,
    marked: list[NameSpan],
    tagged: _Tagged | None,
) -> SentenceReading:
    names = latin_names(text, start, end, evidence)
    if tagged is not None:
        names.extend(chinese_names(tagged.words, start))
    elif not text.isascii():
        names.extend(_lone_han_terms(text, start, end))
    names.sort(key=lambda name: (name.start - name.end, name.start))
    # A quoted single name may be a nickname inside a longer one.
    sure = [term for term in marked if term.type != "unknown"]
    settled = without_overlaps([*sure, *names, *marked])
    phrases: list[Phrase] = []
    if tagged is None or tagged.is_mixed:
        runs = _latin_phrases(text, start, end, settled, evidence)
        phrases += (Phrase(text[first:last], first, last) for first, last in runs)
    if tagged is not None:
        runs = chinese_phrases(tagged.words, start)
        found = (Phrase(text[first:last], first, last, verbal) for first, last, verbal in runs)
        phrases += phrases_outside(found, settled)
    phrases.sort(key=lambda phrase: phrase.start)
    return SentenceReading(start, end, tuple(settled), tuple(phrases))


def _lone_han_terms(text: str, start: int, end: int) -> Iterator[NameSpan]:
    """Yield what an English sentence quotes in Chinese characters, usually the original form of a name."""
    if not _KANA.search(text, start, end):
        for match in _HAN_RUN.finditer(text, start, end):
            yield NameSpan(match.group(), match.start(), match.end(), "unknown")


def phrases_outside(phrases: Iterable[Phrase], names: Sequence[NameSpan]) -> Iterator[Phrase]:
    """Yield the phrases that touch no name; both are in order of their start."""
    remaining = list(reversed(names))
    for phrase in phrases:
        while remaining and remaining[-1].end <= phrase.start:
            remaining.pop()
        if not remaining or remaining[-1].start >= phrase.end:
            yield phrase


def _marked_terms(text: str, evidence: CaseEvidence) -> list[NameSpan]:
    terms = code_names(text)
    for match in _MARKED.finditer(text):
        mark = match.lastgroup or ""
        written = match.group(mark)
        term = written.strip().removesuffix("()")
        kind = _marked_type(mark, term, evidence)
        if kind:
            start = match.start(mark) + len(written) - len(written.lstrip())
            terms.append(NameSpan(term, start, start + len(term), kind))
    return terms


def _marked_type(mark: str, term: str, evidence: CaseEvidence) -> str:
    """Return the type of a term between marks, or nothing when it is no term but speech, emphasis or a value."""
    if mark == "work":
        return "content"
    words = _MARKED_WORDS.findall(term)
    if not words or not any(character.isalpha() for character in term):
        return ""
    if mark == "code":
        return "artifact" if _is_code_name(term, evidence) else ""
    if _ENDS_SENTENCE.search(term[-1:]) or len(words) > _LONGEST_TERM_WORDS or term.casefold() in CALENDAR:
        return ""
    if _HAN.search(term):
        return "concept" if len(term) <= _LONGEST_HAN_TERM and not _ENDS_SENTENCE.search(term) else ""
    kind = _quoted_type(words, evidence)
    # What is set in bold is a term of the text, what is quoted may be the title of a work.
    return "concept" if kind == "content" and mark == "bold" else kind


def _quoted_type(words: list[str], evidence: CaseEvidence) -> str:
    content = [word for word in words if word.casefold() not in evidence.function_words]
    if not content or (len(words) == 1 and words[0].casefold() in _NO_TERMS):
        return ""
    if all(word[0].isupper() or word[0].isdigit() for word in content):
        return "content" if len(words) > 1 else "unknown"
    is_term = len(content) == len(words) <= 3 and not any(word[0].isupper() for word in words)
    return "concept" if is_term and len("".join(words)) > 2 else ""


def _is_code_name(term: str, evidence: CaseEvidence) -> bool:
    if term.casefold() in _CODE_LITERALS or term.casefold() in evidence.function_words:
        return False
    return is_identifier(term) or _CODE_WORD.fullmatch(term) is not None


def _latin_phrases(
    text: str, start: int, end: int, names: Sequence[NameSpan], evidence: CaseEvidence
) -> Iterator[tuple[int, int]]:
    """Yield runs of content words between names, stop words and marks."""
    inside = iter(names)
    name = next(inside, None)
    run: list[tuple[int, int]] = []
    for match in _PHRASE_WORD.finditer(text, start, end):
        while name and name.end <= match.start():
            name = next(inside, None)
        is_named = name is not None and name.start < match.end()
        is_content = not is_named and _is_content_word(match.group(), evidence)
        if not is_content or len(run) == _LONGEST_PHRASE:
            if run:
                yield run[0][0], run[-1][1]
            run = []
        if is_content:
            run.append(match.span())
    if run:
        yield run[0][0], run[-1][1]


def _is_content_word(word: str, evidence: CaseEvidence) -> bool:
    lower = word.casefold()
    return len(word) > 2 and lower not in evidence.function_words and lower not in CALENDAR
