"""Finds names and content phrases in texts that may mix English, Chinese and code.

Texts come in; for each text, its sentences with the names and phrases in them go out. Names come from capitals
(`name_spans`), from Chinese tags (`chinese`), from code (paths, topics, dotted names, options) and from marks such as
quotation marks. The abbreviations that a text introduces (a long form, then the short one in brackets) are found here
as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from heliograph.text.analysis import HAN, is_chinese, stop_words, word_list
from heliograph.text.chinese import (
    TaggedWord,
    chinese_names,
    chinese_phrases,
    has_latin_grammar,
    mixed_words,
    tag_words,
)
from heliograph.text.german import NO_GERMAN_WORDS, GermanWords, is_german_noun
from heliograph.text.name_spans import (
    CALENDAR,
    COMMON_WORDS,
    DATE_PATTERN,
    FILE_SUFFIXES,
    STRUCTURE_WORDS,
    CaseEvidence,
    is_era_or_degree,
    is_identifier,
    latin_names,
)
from heliograph.text.patterns import late_pattern
from heliograph.text.sentences import NameSpan, is_own_line, sentence_spans, spans_within, without_overlaps

# Names in code within running text: paths, message topics, dotted names and command line options.
#
# They become spans of type `artifact`. Single words with the form of an identifier (`snake_case`, `CamelCase`,
# `ESP32-S3`, `a.py`) are found with the other names (`heliograph.text.name_spans.is_identifier`).

_CODE = late_pattern(
    r"(?<![\w/.:~-])(?P<path>(?:(?:~|\.{1,2})?/?(?:[A-Za-z_$+][\w.+-]{0,60}/){1,12}|(?:~|\.{1,2})/)[\w+#.-]{0,60}[\w#+])"
    r"|(?<![\w./-])(?P<dotted>[a-z_]\w{1,40}(?:\.[A-Za-z_]\w{1,40}){2,8})(?![\w-])"
    r"|(?<![\w-])(?P<option>--[a-z][a-z\d]{1,30}(?:-[a-z\d]{1,30}){0,5})(?![\w-])"
)
_CUE = late_pattern(r"\b(?:topics?|paths?|folders?|director(?:y|ies)|endpoints?|routes?|files?|repository|module)\W*$")
_CUE_REACH = 24
_LEAST_SEGMENTS = 3
_SIGNS = ("/", "--", ".")


def code_names(text: str) -> list[NameSpan]:
    """Return the names in code in order, without overlap."""
    if not any(sign in text for sign in _SIGNS):
        return []
    return [
        NameSpan(match.group(), match.start(), match.end(), "artifact")
        for match in _CODE.finditer(text)
        if match.lastgroup != "path"
        or _is_path(match.group(), text[max(0, match.start() - _CUE_REACH) : match.start()])
    ]


def _is_path(found: str, before: str) -> bool:
    """Return whether this is a path or topic, not a choice of words such as "and/or" or "red/green/blue"."""
    segments = [segment for segment in found.split("/") if segment]
    if all(segment.lower() in stop_words("en") or len(segment) < 2 for segment in segments):
        return False
    if found[0] in "/~.":
        return len(segments) > 1
    has_suffix = "." in segments[-1] and segments[-1].rpartition(".")[2].lower() in FILE_SUFFIXES
    if len(segments) < _LEAST_SEGMENTS or has_suffix:
        return has_suffix
    return not all(map(str.isalpha, segments)) or _CUE.search(before.lower()) is not None


# Addresses, link targets and tags hold no names; they are blanked before words are read.
_NOT_PROSE = late_pattern(
    r"https?://[!-~]+|www\.[!-~]+|\]\([^()\n]{0,500}\)|<[^<>\n]{1,200}>|(?<![\w.+-])[\w.+-]{1,64}@[\w.-]{1,255}|&[a-z]{2,8};"
)
_ADDRESS = late_pattern(r"<?(?:mailto:)?[\w.+-]+@\w|\]\(mailto:")
# "Section 2.1, “Common Features”": the quotation is the heading of a section.
_NUMBERED = re.compile(
    r"(?<![\w.])(?:\d+|[A-Z](?=[.,\s]))(?:\.\d+)*[.,]?\s?(?:[章节節部]\s?[,，]?\s?)?"
    r"(?P<title>[„“\"»«「『《][^„“”\"»«「」『』《》\n]{1,80}[“”\"»«」』》])"
)
_WORD_BEFORE = late_pattern(r"([^\W\d_]{1,12})\s?\Z")
_MARKED = late_pattern(
    r"《(?P<work>[^《》\n]{1,60})》|“(?P<quote>[^“”\n]{2,60})”|\"(?P<plain>[^\"\n]{2,60})\"|「(?P<corner>[^「」\n]{2,40})」"
    r"|『(?P<double>[^『』\n]{2,40})』|(?<!\w)«(?P<angle>[^«»\n]{2,60})»|(?<![\w*])\*\*(?P<bold>[^*\s][^*\n]{0,58}[^*\s])\*\*(?![\w*])|`(?P<code>[^`\n]{2,60})`"
)
_MARKED_WORDS = late_pattern(r"[\w][\w'’.+#-]*")
_ENDS_SENTENCE = late_pattern(r"[.!?,;:。！？，；：…]")
_HAN = late_pattern(rf"[{HAN}]")
_HAN_RUN = late_pattern(rf"(?<![{HAN}])[{HAN}]{{2,10}}(?![{HAN}])")
_KANA = late_pattern(r"[\u3041-\u30ff]")
_OTHER_SCRIPT = late_pattern(rf"[^\W\d_A-Za-z\u00c0-\u024f{HAN}]")
_NO_TERMS = COMMON_WORDS | STRUCTURE_WORDS
# "This option defines the list": between two of these, the last word of a phrase is its verb.
_DETERMINERS = frozenset({"a", "an", "any", "each", "every", "its", "that", "the", "this", "which", "whether"})
_VERB = late_pattern(r"[a-z]{2}(?<![sui])s$")
_LONGEST_HAN_TERM = 10
_LONGEST_TERM_WORDS = 6
_CODE_WORD = late_pattern(r"[A-Za-z_][\w.:/-]{2,}(?:\(\))?")
_PLACEHOLDERS = word_list("placeholders")
# Literal values, and keys of a keyboard.
_CODE_LITERALS = word_list("code_literals")

_UNCASED = HAN + r"\u0e00-\u0eff\u3041-\u30ff\uac00-\ud7af"
_PHRASE_WORD = late_pattern(rf"[^\W\d_{_UNCASED}](?:[^\W_{_UNCASED}]|[-'’](?=\w))*|[^\s]")
_LONGEST_PHRASE = 4


@dataclass(frozen=True, slots=True)
class Phrase:
    """Neighbouring content words that form no name.

    Attributes:
        text: The text from `start` to `end`.
        start: Index of the first character.
        end: One past the last character.
        is_predicate: Whether it is a Chinese verb or adjective; always False where words are not tagged.
    """

    text: str
    start: int
    end: int
    is_predicate: bool = False


@dataclass(frozen=True, slots=True)
class _Tagged:
    """The words of a Chinese sentence; `is_mixed` if most letters are Latin, which are then read separately."""

    words: list[TaggedWord]
    is_mixed: bool = False


@dataclass(frozen=True, slots=True)
class SentenceReading:
    """A sentence, its names and its content phrases; all positions count from the start of the whole text."""

    start: int
    end: int
    names: tuple[NameSpan, ...]
    phrases: tuple[Phrase, ...]


def find_names(text: str, *, is_german: bool = False) -> list[NameSpan]:
    """Return proper names, acronyms, identifiers and quoted terms, in order and without overlap, with repeats.

    Args:
        text: The text.
        is_german: Whether it is part of a German document; otherwise its own words decide.
    """
    sentences = read_texts([text], [NO_GERMAN_WORDS if is_german else None])[0]
    return [name for sentence in sentences for name in sentence.names]


def read_texts(
    texts: Sequence[str],
    german: Sequence[GermanWords | None] | None = None,
    labels: Sequence[frozenset[str] | None] | None = None,
) -> list[list[SentenceReading]]:
    """Read texts; the result for one does not depend on the others, but reading them together is faster.

    Args:
        texts: The texts.
        german: For each text that is part of a German document, the evidence of the whole document.
        labels: For each text that is part of a document, the labels of the whole document.

    Returns:
        One list of sentences per text, in order; empty for a text of white space.
    """
    prose = [_NUMBERED.sub(_without_heading, _NOT_PROSE.sub(_blank, text)) for text in texts]
    spans = [_sentences(text) for text in texts]
    tagged = _tag_chinese(prose, spans)
    german, labels = german or [None] * len(texts), labels or [None] * len(texts)
    evidence = map(CaseEvidence.of, prose, german, labels)
    return [
        _read_text(number, text, spans[number], tagged, said)
        for number, (text, said) in enumerate(zip(prose, evidence, strict=True))
    ]


def _blank(match: re.Match[str]) -> str:
    """Return blanks, with a leading "@" for an e-mail address: the name before an address is a person's."""
    return ("@" if _ADDRESS.match(match.group()) else " ").ljust(len(match.group()))


def _without_heading(match: re.Match[str]) -> str:
    """Return a reference to a section with its heading blanked, and any other match unchanged."""
    before = _WORD_BEFORE.search(match.string, max(0, match.start() - 14), match.start())
    is_reference = before is not None and (before[1].lower() in STRUCTURE_WORDS or before[1].endswith("第"))
    return match.group().replace(match["title"], " " * len(match["title"])) if is_reference else match.group()


def _sentences(text: str) -> list[tuple[int, int]]:
    """Return the sentence spans; a paragraph's first line that is ended on purpose (a title) is a span of its own."""
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
    number: int,
    text: str,
    spans: Sequence[tuple[int, int]],
    tagged: Mapping[tuple[int, int], _Tagged],
    evidence: CaseEvidence,
) -> list[SentenceReading]:
    marked = spans_within(_marked_terms(text, evidence), spans)
    return [
        _read_sentence(text, start, end, evidence.of_sentence(text[start:end]), inside, tagged.get((number, start)))
        for (start, end), inside in zip(spans, marked, strict=True)
    ]


def _tag_chinese(texts: Sequence[str], spans: Sequence[Sequence[tuple[int, int]]]) -> dict[tuple[int, int], _Tagged]:
    """Return the tagged words of every Chinese sentence, by index of the text and start of the sentence."""
    with_han = [number for number, text in enumerate(texts) if _HAN.search(text)]
    places = [(number, start, texts[number][start:end]) for number in with_han for start, end in spans[number]]
    chinese: list[tuple[int, int, str, bool]] = []
    for number, start, sentence in places:
        is_whole = is_chinese(sentence)
        has_both = bool(_HAN.search(sentence)) and not _OTHER_SCRIPT.search(sentence)
        if is_whole or (has_both and not has_latin_grammar(sentence)):
            chinese.append((number, start, sentence, is_whole))
    if not chinese:
        return {}
    words = tag_words([sentence for _, _, sentence, _ in chinese])
    tagged: dict[tuple[int, int], _Tagged] = {}
    for (number, start, sentence, is_whole), found in zip(chinese, words, strict=True):
        if is_whole:
            tagged[number, start] = _Tagged(found)
        elif (mixed := mixed_words(sentence, found)) is not None:
            tagged[number, start] = _Tagged(mixed, is_mixed=True)
    return tagged


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
        names.extend(
            name for name in chinese_names(tagged.words, start) if not _labels_line(text, name.start, name.end)
        )
    elif not text.isascii() and not _KANA.search(text, start, end):
        # Chinese characters in an English sentence are usually the original form of a name.
        for match in _HAN_RUN.finditer(text, start, end):
            if not _labels_line(text, *match.span()):
                names.append(NameSpan(match.group(), *match.span(), "unknown"))
    names.sort(key=lambda name: (name.start - name.end, name.start))
    # A quoted single name may be a nickname within a longer one.
    sure = [term for term in marked if term.type != "unknown"]
    settled = without_overlaps([*sure, *names, *marked])
    phrases: list[Phrase] = []
    if tagged is None or tagged.is_mixed:
        runs = _latin_phrases(text, start, end, settled, evidence)
        phrases += (Phrase(text[first:last], first, last) for first, last in runs)
    if tagged is not None:
        runs = chinese_phrases(tagged.words, start)
        found = (
            Phrase(text[first:last], first, last, verbal)
            for first, last, verbal in runs
            if not _labels_line(text, first, last)
        )
        phrases += phrases_outside(found, settled)
    phrases.sort(key=lambda phrase: phrase.start)
    return SentenceReading(start, end, tuple(settled), tuple(phrases))


def _labels_line(text: str, start: int, end: int) -> bool:
    """Return whether the line introduces a value with a label made of these words: "示例: abort shutdown script"."""
    return text[end : end + 1] in {":", "："} and not any(
        map(str.isalnum, text[text.rfind("\n", 0, start) + 1 : start])
    )


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
        term = written.strip("@ ").removesuffix("()")
        kind = _marked_type(mark, term, evidence)
        if kind:
            start = match.start(mark) + len(written) - len(written.lstrip("@ "))
            terms.append(NameSpan(term, start, start + len(term), kind))
    return terms


def _marked_type(mark: str, term: str, evidence: CaseEvidence) -> str:
    """Return the type of a term between marks; empty if it is speech, emphasis or a value instead."""
    if mark == "work":
        return "content" if term else ""
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
    # A term in bold is a concept of the text, a term in quotation marks may be the title of a work.
    return "concept" if kind == "content" and mark == "bold" else kind


def _quoted_type(words: list[str], evidence: CaseEvidence) -> str:
    content = [word for word in words if word.casefold() not in evidence.function_words]
    if not content:
        return ""
    if len(words) == 1:
        word = words[0].casefold()
        is_noun = evidence.language == "de" and is_german_noun(("in", *words), 1, 1, evidence.german, evidence.lower)
        if is_noun or word in _NO_TERMS or word in _CODE_LITERALS:
            return ""
    if all(word[0].isupper() or word[0].isdigit() for word in content):
        return "content" if len(words) > 1 else "unknown"
    is_term = len(content) == len(words) <= 3 and not any(word[0].isupper() for word in words)
    return "concept" if is_term and len("".join(words)) > 2 else ""


def _is_code_name(term: str, evidence: CaseEvidence) -> bool:
    is_value = term.casefold() in _CODE_LITERALS or DATE_PATTERN.fullmatch(term) is not None
    if is_value or term.casefold() in evidence.function_words:
        return False
    # A value or a field that only one page has is no name: `name`, `default`, `foo`.
    if (term.islower() or term.istitle()) and (term.lower() in _NO_TERMS or term.lower() in _PLACEHOLDERS):
        return False
    if term.lower() in evidence.nouns:
        # "`pattern`" in a text that has "the pattern".
        return False
    return is_identifier(term) or _CODE_WORD.fullmatch(term) is not None


def _latin_phrases(
    text: str, start: int, end: int, names: Sequence[NameSpan], evidence: CaseEvidence
) -> Iterator[tuple[int, int]]:
    """Yield runs of content words between names, stop words and marks."""
    inside = iter(names)
    name = next(inside, None)
    run: list[tuple[int, int]] = []
    before = last = ""
    for match in _PHRASE_WORD.finditer(text, start, end):
        while name and name.end <= match.start():
            name = next(inside, None)
        is_named = name is not None and name.start < match.end()
        word = match.group()
        lower = word.casefold()
        is_content = not is_named and len(word) > 2 and lower not in evidence.function_words and lower not in CALENDAR
        if not is_content or len(run) == _LONGEST_PHRASE:
            if len(run) > 1 and before in _DETERMINERS and word in _DETERMINERS and _VERB.search(text, *run[-1]):
                run.pop()
            if run:
                yield run[0][0], run[-1][1]
            run = []
        if is_content:
            before = before if run else last
            run.append(match.span())
        last = word.lower()
    if run:
        yield run[0][0], run[-1][1]


# Abbreviations that a text introduces: "Message Queuing Telemetry Transport (MQTT)", "MQTT（消息队列遥测传输）".
#
# In Latin letters the short form must consist of the initials of all words of the long form except small words, in
# order, and of letters from inside these words. Matching letters backwards, as Schwartz and Hearst do ("A simple
# algorithm for identifying abbreviation definitions in biomedical text", 2003), is less strict: it takes "Management
# and Budget" for OMB. Chinese has no initials to match, so there the long form is the name or noun phrase that touches
# the bracket.

_SHORT = r"[A-Z][A-Za-z0-9&/.-]{1,11}"
_SHORT_IN_BRACKETS = late_pattern(rf"[ ]?[(（]({_SHORT})(?:s)?[)）]")
_LONG_IN_BRACKETS = late_pattern(rf"(?<![\w-])({_SHORT})[ ]?[(（]([^()（）\n]{{4,80}})[)）]")
_WORD = late_pattern(r"[^\s]+")
_PART = late_pattern(r"[^\W_]+")
# No name continues across these: other brackets, ends of clauses, addresses.
_NOT_IN_NAMES = late_pattern(r"[()\[\]{}|;:=<>\n\"“”]|[,.!?](?=\s)|https?|\S*/\S*/\S*")
_SMALL = word_list("small_words")
_HAN_NAME = late_pattern(rf"[{HAN}][{HAN}\w]{{1,19}}")
_LOOK_BACK = 160
_MOST_WORDS = 10
_SHORTEST_HAN_FORM = 4
_LONGEST_HAN_FORM = 20
_FIRST_HAN = 0x3400

_Part = NameSpan | Phrase


# A short form and its long form, each as `(start, end)` in the text.
Abbreviation = tuple[tuple[int, int], tuple[int, int]]


def find_abbreviations(text: str, sentences: Sequence[SentenceReading]) -> list[Abbreviation]:
    """Return the abbreviations that are introduced in brackets, in order.

    Args:
        text: The text.
        sentences: Its sentences, which bound the search and hold the Chinese phrases.
    """
    return [found for sentence in sentences for found in _in_sentence(text, sentence)]


def _in_sentence(text: str, sentence: SentenceReading) -> Iterator[Abbreviation]:
    parts = {part.end: part for part in (*sentence.phrases, *sentence.names)}
    for match in _SHORT_IN_BRACKETS.finditer(text, sentence.start, sentence.end):
        start = _long_form_start(text, sentence.start, match, parts)
        if start >= 0 and _is_short_form(match.group(1)):
            is_possessive = text.endswith(("'s", "’s"), start, match.start())
            yield match.span(1), (start, match.start() - 2 * is_possessive)
    for match in _LONG_IN_BRACKETS.finditer(text, sentence.start, sentence.end):
        long = match.group(2)
        is_long = _HAN_NAME.fullmatch(long) or _matched_start(match.group(1), long) == 0
        if is_long and _is_short_form(match.group(1)):
            yield match.span(1), match.span(2)


def _is_short_form(short: str) -> bool:
    return sum(character.isupper() for character in short) >= 2 and not is_era_or_degree(short)


def _long_form_start(text: str, sentence_start: int, bracket: re.Match[str], parts: Mapping[int, _Part]) -> int:
    """Return where the long form before the bracket begins, or -1.

    Args:
        text: The text.
        sentence_start: Where the sentence begins.
        bracket: The bracket with the short form.
        parts: Names and phrases of the sentence by their ends.
    """
    end = bracket.start()
    chinese = _chinese_form_start(parts, end)
    if chinese < end:
        return chinese if _HAN_NAME.fullmatch(text, chinese, end) and end - chinese >= _SHORTEST_HAN_FORM else -1
    first = max(sentence_start, end - _LOOK_BACK)
    short = bracket.group(1)
    words = [match.start() for match in _WORD.finditer(text, first, end)]
    words = words[-min(len(short) + 5, 2 * len(short), _MOST_WORDS) :]
    if not words:
        return -1
    start = _matched_start(short, text[words[0] : end])
    return words[0] + start if start >= 0 else -1


def _chinese_form_start(parts: Mapping[int, _Part], end: int) -> int:
    """Return where the Chinese words that touch `end` begin, without leading verbs; `end` if there are none."""
    run: list[_Part] = []
    start = end
    while (part := parts.get(start)) and end - part.start <= _LONGEST_HAN_FORM and ord(part.text[-1]) >= _FIRST_HAN:
        run.append(part)
        start = part.start
    while len(run) > 1 and isinstance(run[-1], Phrase) and run[-1].is_predicate:
        run.pop()
    return run[-1].start if run else end


def _matched_start(short: str, long: str) -> int:
    """Return where in `long` the words begin that `short` abbreviates, or -1.

    They are the fewest words at its end whose initials spell the short form; failing that, the fewest whose initials
    all occur in it in order, with letters from inside the words between them ("CARICOM", "TWh").
    """
    blank = max((match.end() for match in _NOT_IN_NAMES.finditer(long)), default=0)
    long = " " * blank + long[blank:]
    letters = "".join(character.lower() for character in short if character.isalnum())
    words = [(match.start(), match.group().lower()) for match in _PART.finditer(long)]
    if not letters or short.lower() in {word for _, word in words}:
        return -1
    for inner in (False, True):
        for first in range(len(words) - 1, -1, -1):
            start, word = words[first]
            is_whole = start == 0 or not (long[start - 1].isalnum() or long[start - 1] in "-'’")
            is_start = is_whole and word[0] == letters[0] and (word not in _SMALL or first == 0)
            if is_start and _spells(letters, [word for _, word in words[first:]], inner=inner):
                spelled = long[start:]
                has_words = len(spelled.split()) > 1 or "-" in spelled
                return start if has_words and len(spelled) > len(short) else -1
    return -1


def _spells(letters: str, words: Sequence[str], *, inner: bool) -> bool:
    """Return whether the words' initials spell the letters; small words may be skipped.

    Args:
        letters: The letters to spell, in lower case.
        words: At most about ten words, in lower case.
        inner: Whether letters from inside a word may follow its initial.
    """
    reached = {0}
    for word in words:
        after = {end for place in reached if place < len(letters) for end in _ends(letters, place, word, inner=inner)}
        reached = after | reached if word in _SMALL else after
        if not reached:
            return False
    return len(letters) in reached


def _ends(letters: str, place: int, word: str, *, inner: bool) -> list[int]:
    """Return the positions up to which a word, its initial first, can spell the letters from `place` on."""
    if letters[place] != word[0]:
        return []
    ends = [place + 1]
    at = 1
    while inner and ends[-1] < len(letters) and (at := word.find(letters[ends[-1]], at) + 1):
        ends.append(ends[-1] + 1)
    return ends
