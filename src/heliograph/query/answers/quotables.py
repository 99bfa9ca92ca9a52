"""Splits a context into quotable units: sentences, list items, rows of tables, code and formulas.

It turns chunks into `Quotable`s, each a span of its chunk with the lead that a reader needs: the explained term, the
lead-in of its list, or the heading above. A sentence that points back ("It is kept for 14 days.") is joined with the
one before it. Headings, rules, images and table headers say nothing alone, so they are not quoted; their words count
for the text below. A sentence cut at a chunk's edge is completed from the document's text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from heliograph.query.models import RetrievedChunk
from heliograph.text.analysis import is_chinese, terms_in
from heliograph.text.patterns import compiled, late_pattern
from heliograph.text.sentences import on_one_line, row_cells, sentence_spans

_FENCE_LINE = late_pattern(r"^[ \t>]{0,12}(```|~~~)", re.MULTILINE)
_HEADING = late_pattern(r"#{1,6}[ \t]+(.*\S)")
_NO_STATEMENT = compiled(
    r"#|!\[|[=*_-]{3,}$|\|[\s:|-]*$|\[[^\]]*\]$"
    r"|(?:figure|fig\.|table|listing|abbildung|tabelle|[图圖表])\s?\d[\d.-]*[:.]?$",
    re.IGNORECASE,
)
_LIST_MARK = late_pattern(r"^(?:(?:[-*+•>]|\d{1,3}[.)])\s+)+")
# The beginning of the next list item, and the punctuation that may end an item.
_ITEM_ENDS = late_pattern(r"\n(?=[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t])")
_ENDS_ITEM = late_pattern(r"[.!?;:,…。！？；：，、][\"'”’)）」』\]*_]*$")
_ENDS_WIDE = late_pattern(r"[。！？；：，、][”’）」』*_]*$")
# Not the prompt ">>>". A line of nothing else ends a paragraph.
_QUOTE_MARKS = late_pattern(r"^[ \t]*(?:>(?:[ \t]+|$))+(?P<is_all>$)?", re.MULTILINE)
_TABLE_RULE = late_pattern(r"\|?[\s:|-]*-[\s:|-]*$")
_CODE_CELL = late_pattern(r"(?:`[^`]+`[\s,/|]*)+")
_LONGEST_COLUMN = 12
_LEADS_IN = (":", "：")
_LETTER = late_pattern(r"\w")
_PARAGRAPH_END = late_pattern(r"[ \t]*\n[ \t]*\n\s*\S")
_FORMULA = late_pattern(r"^\$\$?[^$]+\$\$?$|^\\[\[(].*\\[\])]$")
# Characters beyond a span in which the rest of a sentence is searched.
_REACH = 1000

# A term that is explained below it, in a paragraph of its own ("--depth <depth>"), or behind a
# colon ("`port` (int): The port"). It says what the sentences up to the next term are about, which seldom name it.
_LONGEST_TERM = 80
_TERM_ENDS = frozenset(".,;!?。，；！？…")
_TERM_BEFORE_COLON = late_pattern(
    r"^(?:[-*+•]\s+)?(`[^`\n]+`(?:[\s,/|]*(?:or\s+)?(?:`[^`\n]+`|\([^()\n]{1,40}\)))*)\s*[:：]\s"
)
_ASKS = late_pattern(r"[?？][^\w.!。！`)\]]*$")
# A question that the lines below it answer, alone in its paragraph or behind its mark.
_QUESTION_MARK = compiled(r"(?:\*\*|__)?(?:Q|Question|Frage|F|问题?)\s?\d{0,3}\s?[:：.)][\s*_]*(?=\S)")
_LONGEST_QUESTION = 160
# A message of a conversation, one line each: who wrote it, perhaps behind a time, and what. Lines of other texts have
# this form too ("Type: time"), so some must ask or speak of who speaks, and somebody must speak twice.
_MESSAGE = late_pattern(
    r"[ \t]*(?:[-*•][ \t]+)?(?:\[[^\]\n]{1,40}\][ \t]*|\(?\d{1,2}:\d\d(?::\d\d)?\)?[ \t]+)?\**"
    r"(?P<who>[^\W\d_][^:：\n`|<>=/]{0,30}?)\**[ \t]?[:：]\**[ \t]*(?P<said>\S.*)"
)
_SPOKEN = compiled(
    r"[?？]|\b(?:i|i'm|you|we|me|my|your|our|let's|ich|wir|mir|mich|mein\w*|dein\w*|ihr|uns|je|nous|vous)\b|[我你您咱]",
    re.IGNORECASE,
)
_QUESTION = late_pattern(r"[^.!?。！？]{1,160}[?？]")
_ANY_LETTER = late_pattern(r"[^\W\d_]")
# Up to this length a message is quoted as a whole, and what it begins with together with the next sentence.
_SHORT_MESSAGE, _GREETING = 200, 40
# Openings of a sentence that points back to the one before it.
_POINTS_BACK = compiled(
    r"(?:it|its|this|that|these|those|they|their|them|he|she|his|her|such|however|therefore|otherwise|thus|instead"
    r"|in this case|in that case|for this reason|then|er|sie|es|dies|diese[rsnm]?|dabei|damit|dazu|daher|deshalb"
    r"|sonst|jedoch)\b"
    r"|[(（]|[它他她其该此]|这|那(?!么)|因此|所以|但|然而|否则|于是|不过",
    re.IGNORECASE,
)
# How it may point back to a command shown above it: "By default, this will return".
_POINTS_BACK_TO_CODE = compiled(r"(?:\w+ ){0,2}?\w*,? ?(?:this|these)\b|这|dies", re.IGNORECASE)
# How it may point back within the sentence: "if the script exits with this code".
_POINTS_BACK_WITHIN = compiled(
    r"[^.;:]{0,80}?\b(?:this|these|such)\s+(?!(?:is|are|was|were|way|means|page|section|chapter|manual|document|guide"
    r"|book|tutorial|version|release|as)\b)[a-z]+|[^。；：]{0,30}?(?:该|上述|这[个种些])(?!章|节|手册|文档|页)",
    re.IGNORECASE,
)
# How a later sentence of an explanation begins that does not repeat the term.
_ELLIPTICAL = compiled(
    r"(?:the|its)? ?(?:default|initial|minimum|maximum|valid|allowed|possible|recommended)\b|defaults? to\b"
    r"|by default\b|if (?:not|un)[ -]?(?:set|specified|given)\b|默认|缺省|预设"
    r"|(?:der |die )?(?:standard|voreingestellt|vorgabe)",
    re.IGNORECASE,
)
# And of what the sentence before it is about: "The value must be between 1 and 9."
_ITS_VALUE = compiled(
    r"(?:the (?:default |possible |allowed |valid )?(?:values?|default|unit)|by default,? (?:this|it|they))\b(?! of\b)"
    r"|(?:默认值?|缺省值?|取值|单位)[为是]|(?:der )?(?:standardwert|vorgabewert|wert) (?:ist|beträgt|muss)\b",
    re.IGNORECASE,
)
# A title in plain words has a capital.
_SETTING = late_pattern(r"`?(?:[A-Za-z][A-Za-z\d]*(?:[_.][A-Za-z\d]+)+|[a-z][a-z\d]+(?:-[a-z\d]+)*)`?")
_DEFAULT_VALUE = compiled(r"[*`_]{0,2}(?:default|standard|vorgabe|默认|缺省|预设)[^:：]{0,20}[:：]\s*\S", re.IGNORECASE)
_SAME_AS_ABOVE = compiled(
    r"\bthe same (?:rules?|way|applies|goes|holds|procedure|limits?)\b|\blikewise\b|\bas above\b"
    r"|同样|同上|相同的规则|如上",
    re.IGNORECASE,
)
_LONGEST_PAIR = 500
# Up to these lengths the first quotes take in what stands beside them: of what speaks of the question, and of anything.
_LONGEST_PASSAGE = 400
_LONGEST_OF_ANYTHING = (600, 400, 300)
# Sentences and items taken in by one that says the same of something else.
_TAKEN_IN = 3
# Mere cross-references.
_REFERS = compiled(
    r"[(（]?(?:see|cf\.|siehe|vgl\.|see also|参见|参阅|请参见|请参阅|详见)\b.{0,160}$"
    r"|(?:`?\w[\w.+:-]*`? ?\(\d\w{0,4}\)`?[,;\s]*)+\.?$",
    re.IGNORECASE,
)
_LONGEST_LEAD = 200

# Least length of a sentence that breaks off before a block of code: in Chinese characters, in spaces.
_LEAST_HAN_SENTENCE, _LEAST_SPACES = 8, 3


class Form(Enum):
    """The kind of text unit that a quotable is in its document."""

    PROSE = auto()
    ITEM = auto()
    ROW = auto()
    CODE = auto()


@dataclass(frozen=True, slots=True)
class Quotable:
    """One sentence, list item, row or line of code.

    Attributes:
        place: Index of its chunk in the context, from 0.
        shown: Its text on one line, without its list mark; a row with the names of its columns.
        words: Its terms, and those of the term that it explains and of the lead-in of its list or table.
        nearby: Terms of the headings above it, of the chunk's first sentence and of the sentence before.
        beside: The subset of `nearby` from the heading and from sentences that are joined with it.
        is_cut: Whether the chunk may cut it off, since it touches an end of the chunk.
        lead: Text that a reader needs before it: the explained term, the lead-in of the list, or the heading; often
            empty.
    """

    item: RetrievedChunk
    place: int
    start: int
    end: int
    shown: str
    words: frozenset[str]
    nearby: frozenset[str]
    beside: frozenset[str]
    is_cut: bool
    form: Form = Form.PROSE
    lead: str = ""
    heading: str = ""

    @property
    def asks(self) -> bool:
        """Whether it ends with a question, which seldom answers one."""
        return _ASKS.search(self.shown) is not None

    @property
    def told(self) -> str:
        """The text with its lead, as it is quoted."""
        return f"{self.lead} {self.shown}" if self.lead else self.shown

    @property
    def in_place(self) -> str:
        """The text with its heading and its lead, understandable without the text above it."""
        return ". ".join(part for part in dict.fromkeys((self.heading, self.lead, self.shown)) if part)


def quotable_sentences(
    chunks: Sequence[RetrievedChunk], in_code: Collection[str] = (), language: str = "en"
) -> list[Quotable]:
    """Return the quotables of these chunks in order, deduplicated by text; give the best chunk first.

    `in_code` are ids of chunks that begin inside a block of code; `language` is that of the question.
    """
    found: dict[str, Quotable] = {}
    for place, item in enumerate(chunks):
        for quotable in _Reading(item, place, is_code=item.chunk.id in in_code, language=language).read():
            found.setdefault(f"{quotable.lead}\n{quotable.shown}", quotable)
    return list(found.values())


def has_fence(text: str) -> bool:
    """Return whether a block of code begins or ends in a text."""
    return _FENCE_LINE.search(text) is not None


def begins_in_code(document_text: str, start: int) -> bool:
    """Return whether an offset of a document is inside a block of code."""
    return len(_FENCE_LINE.findall(document_text, 0, start)) % 2 == 1


def completed_span(document_text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a span to whole sentences, by at most 1,000 characters on each side."""
    first, last = max(0, start - _REACH), min(len(document_text), end + _REACH)
    spans = [(first + a, first + b) for a, b in sentence_spans(document_text[first:last])]
    touched = [(a, b) for a, b in spans if a < end and start < b]
    if not touched:
        return start, end
    begin, stop = touched[0][0], touched[-1][1]
    # A sentence that reaches the edge of the searched text may be cut there; the chunk's own edge is as good then.
    begin = start if begin == first > 0 else begin
    return begin, end if stop == last < len(document_text) else stop


def shown_text(text: str) -> str:
    """Return a text on one line, without list marks and the marks of a quotation.

    Items of a list follow each other like sentences, with a semicolon behind each that has no mark at its end.
    """
    shown: list[str] = []
    are_items = False
    for item in _ITEM_ENDS.split(_QUOTE_MARKS.sub("", text)):
        said = on_one_line(item)
        # In the middle of a sentence a line begins so by chance: "on the\n12. of May".
        are_items = are_items or not shown or _ENDS_ITEM.search(shown[-1]) is not None
        if not are_items:
            shown.append(f" {said}")
            continue
        are_items = _LIST_MARK.match(said) is not None
        said = _LIST_MARK.sub("", said)
        if shown and said:
            stop = "" if _ENDS_ITEM.search(shown[-1]) else "；" if is_chinese(shown[-1]) else "; "
            shown.append(stop or ("" if _ENDS_WIDE.search(shown[-1]) else " "))
        if said:
            shown.append(said)
    return "".join(shown)


def _is_row(shown: str) -> bool:
    return shown.startswith("|")


def _are_names(columns: Sequence[str]) -> bool:
    """Return whether the first row of a table names its columns.

    It does not where its first cell ends with a colon (a key before its value) or is code, or another cell is a
    sentence: pages without a header have their first row there.
    """
    first, *others = columns or (":",)
    is_row = first.endswith(_LEADS_IN) or _CODE_CELL.fullmatch(first) is not None
    return not is_row and not any(cell.endswith((".", "。")) and len(cell) > _LONGEST_COLUMN for cell in others)


def _row_text(cells: Sequence[str], columns: Sequence[str]) -> str:
    """Return a row as "column: value" text; cells without a named column stand alone, empty ones not at all."""
    named = [*columns[: len(cells)], *[""] * (len(cells) - len(columns))]
    told = (
        f"{column.rstrip(':：')}: {cell}" if column and column != cell else cell
        for column, cell in zip(named, cells, strict=True)
        if cell
    )
    pairs = [cell for cell in cells if cell]
    if len(pairs) == 2 and (pairs[0].endswith(_LEADS_IN) or (not columns and _CODE_CELL.fullmatch(pairs[0]))):
        return f"{pairs[0].rstrip(':：')}: {pairs[1]}"
    return "; ".join(told)


def in_passages(
    quotes: Sequence[Quotable],
    sentences: Sequence[Quotable],
    asked: Collection[str],
    says_little: Callable[[Quotable], bool],
) -> list[Quotable]:
    """Return quotes, best first, with adjacent ones of one paragraph merged at the place of the better one.

    The first quotes, if short, are extended by adjacent sentences that share words with the question, since the answer
    often stands right before or after the sentence nearest to the question. If a quote `says_little` of the question,
    the answer may use other words, so it is extended by any adjacent text, also from the next paragraph.
    """
    found: list[Quotable] = []
    for quote in quotes:
        place = next((place for place, other in enumerate(found) if _is_beside(quote, other, _LONGEST_PAIR)), None)
        if place is None:
            found.append(quote)
        else:
            found[place] = _together(found[place], quote)
    for place, (quote, longest) in enumerate(zip(found, _LONGEST_OF_ANYTHING, strict=False)):
        chunk = quote.item.chunk.id
        if any(_holds(other, quote) for other in found[:place]):
            continue
        others = [other for other in found if other is not quote and other.item.chunk.id == chunk]
        # Quote nothing twice: text of another quote stays there, unless that quote is absorbed as a whole.
        beside = [
            item
            for item in sentences
            if item.item.chunk.id == chunk
            and all(item.end <= other.start or other.end <= item.start or _holds(item, other) for other in others)
        ]
        is_little = says_little(quote)
        if not is_little:
            longest, beside = _LONGEST_PASSAGE, [item for item in beside if not item.words.isdisjoint(asked)]
        is_longer = True
        while is_longer:
            is_longer = False
            behind = (item for item in beside if item.end > quote.end)
            before = (item for item in reversed(beside) if item.end <= quote.start)
            for near in filter(None, (next(behind, None), next(before, None))):
                if _is_beside(near, quote, longest) or (is_little and _goes_on(near, quote, longest)):
                    quote, is_longer = _together(quote, near), True
        found[place] = quote
    told: list[Quotable] = []
    for quote in found:
        if not any(_holds(other, quote) for other in told):
            told.append(quote)
    return told


def _holds(quote: Quotable, other: Quotable) -> bool:
    is_in_chunk = quote.item.chunk.id == other.item.chunk.id
    return is_in_chunk and quote.start <= other.start and other.end <= quote.end


def _together(quote: Quotable, other: Quotable) -> Quotable:
    """Merge two quotes of one paragraph; lead and form are those of the first in the text."""
    first, last = sorted((quote, other), key=lambda item: item.start)
    end = max(first.end, last.end)
    return replace(
        first,
        end=end,
        shown=shown_text(first.item.chunk.text[first.start : end]),
        words=first.words | last.words,
        is_cut=first.is_cut or last.is_cut,
    )


def _is_beside(sentence: Quotable, other: Quotable, longest: int) -> bool:
    """Return whether two sentences are adjacent in a paragraph, or nested, and together not too long."""
    if sentence.item.chunk.id != other.item.chunk.id:
        return False
    first, last = sorted((sentence, other), key=lambda item: item.start)
    # A list item goes on with the sentences behind its first one.
    if last.form is not Form.PROSE or first.form not in (Form.PROSE, Form.ITEM):
        return False
    between = first.item.chunk.text[first.end : last.start]
    # A message of a conversation ends with its line.
    is_near = not between.strip() and "\n\n" not in between and ("\n" not in between or first.lead == last.lead)
    return is_near and max(first.end, last.end) - first.start <= longest


def _goes_on(sentence: Quotable, other: Quotable, longest: int) -> bool:
    """Return whether one sentence directly follows the other, also in the next paragraph, with the same lead."""
    first, last = sorted((sentence, other), key=lambda item: item.start)
    if first.item.chunk.id != last.item.chunk.id or first.lead != last.lead:
        return False
    # The next option of a list says nothing of the one before.
    if last.form is Form.ITEM and _TERM_BEFORE_COLON.match(last.shown):
        return False
    are_text = {first.form, last.form} <= {Form.PROSE, Form.ITEM}
    between = first.item.chunk.text[first.end : last.start]
    return are_text and not between.strip() and max(first.end, last.end) - first.start <= longest


@dataclass
class _Reading:
    """The state of reading a chunk: the sentences found, and the context for the lines to come.

    Attributes:
        term: The term being explained, from the last line that named one.
        is_term_new: Whether its explanation has not begun yet.
        is_term_listed: Whether it is in a list item, at whose end its explanation ends.
        explained: The first sentence of its explanation; empty if that was long.
        default: Its default value, if that stands above its explanation.
        leading: The lead-in sentence of a list, a table or code.
        asked: The question right before, which the next sentence answers.
        speaker: The current speaker, with a colon, if the chunk is a conversation.
        open_question: The speaker's last question, for another speaker to answer.
        columns: Column names of the current table.
        is_title: Whether the term is the title of the current table; it is dropped at the table's end.
        code_above: The last line of the code block right above; empty after the first sentence below the block.
    """

    item: RetrievedChunk
    place: int
    is_code: bool
    language: str = "en"
    heading: str = ""
    term: str = ""
    is_term_new: bool = True
    is_term_listed: bool = False
    explained: str = ""
    default: str = ""
    leading: str = ""
    asked: str = ""
    speaker: str = ""
    open_question: str = ""
    columns: Sequence[str] = ()
    is_title: bool = False
    text: str = ""
    found: list[Quotable] = field(default_factory=list[Quotable])
    first: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    before_text: str = ""
    code_above: str = ""

    def read(self) -> list[Quotable]:
        """Return the quotables of the chunk, in order."""
        # Marks of a quotation are read as white space: a list of definitions may stand in one.
        text = self.text = _QUOTE_MARKS.sub(
            lambda mark: ("\n" if mark["is_all"] is not None else " ") * len(mark[0]), self.item.chunk.text
        )
        headings = self.item.chunk.headings
        self._begin_section(headings[-1] if headings else "", self.item.chunk.columns)
        above = self._terms(" ".join(headings))
        messages = _messages(text)
        spans = _whole(sentence_spans(text), messages)
        for place, (start, end) in enumerate(spans):
            written = text[start:end]
            if _FENCE_LINE.match(written):
                self.is_code = not self.is_code
                continue
            shown = on_one_line(written)
            if start in messages and self._begin_message(messages[start]):
                continue
            if self.is_code:
                self._add(start, end, f"`{shown}`", Form.CODE, above)
                continue
            # A heading may stand in a list, as the questions of an FAQ do.
            if heading := _HEADING.match(shown_text(written)):
                self._begin_section(heading[1].strip())
                continue
            if self.found and _is_row(written) and _TABLE_RULE.match(shown):
                self._name_columns(spans[place - 1][1])
                continue
            if _NO_STATEMENT.match(shown) or _REFERS.match(shown) or not _LETTER.search(shown):
                continue
            # A paragraph of its own, with another one below.
            is_paragraph = _begins_paragraph(text, start) and _PARAGRAPH_END.match(text, end) is not None
            is_listed = _LIST_MARK.match(written) is not None or text[start - 1 : start] in (" ", "\t")
            if _is_row(written):
                self.is_title = self.is_title or self.is_term_new
                self._add(start, end, _row_text(row_cells(written), self.columns), Form.ROW, above)
                continue
            self._end_table()
            asks = _ASKS.search(shown) is not None and len(shown) <= _LONGEST_QUESTION
            is_item = _LIST_MARK.match(written.lstrip()) is not None
            if asks and not self.speaker:
                self._begin_question(shown, is_paragraph or is_item)
                continue
            following = text[slice(*spans[place + 1])] if place + 1 < len(spans) else ""
            # "To show the default target, run", with the command below it.
            breaks_off = _FENCE_LINE.match(following) is not None and _breaks_off(shown)
            names = is_paragraph and not breaks_off and _is_term(shown)
            # A line in plain words explains the option above it, though it has no full stop.
            is_of_option = self.is_term_new and self.term.startswith(("-", "`-")) and shown[0].isalpha()
            if names and not (is_of_option and " " in shown) and not self._is_default(shown):
                # Several terms may share what stands below them ("-s", "--sign").
                both = f"{self.term}, {shown}"
                self._begin_term(both if self.is_term_new and self.term and len(both) <= _LONGEST_TERM else shown)
                self.leading = ""
                self._note(self._terms(shown), "")
                continue
            if self.is_term_listed and not is_listed:
                # A line at the margin again belongs to no item.
                self._begin_term("")
                self.is_term_listed = False
            if match := _TERM_BEFORE_COLON.match(shown):
                self._begin_term(match[1])
                self.is_term_listed = is_listed
            if breaks_off or shown.endswith(_LEADS_IN):
                self.leading = shown_text(written)
                self._note(self._terms(shown), self.leading)
                continue
            if not is_item and _begins_paragraph(text, start):
                self.leading = ""
            self._add(start, end, shown_text(written), Form.ITEM if is_item else Form.PROSE, above)
        return self.found

    def _begin_section(self, heading: str, columns: Sequence[str] = ()) -> None:
        self.heading, self.leading, self.asked = heading, "", ""
        self.columns = columns if _are_names(columns) else ()
        # Text below a heading that names a setting explains the setting.
        self._begin_term(heading if _SETTING.fullmatch(heading) else "")
        self.is_term_listed = False

    def _name_columns(self, end: int) -> None:
        """Use the row that ends at `end`, right above the rule of its table, as the column names."""
        header = self.found[-1]
        columns = row_cells(self.text[header.start : header.end])
        if header.end == end and _are_names(columns):
            self.columns = columns
            self.found.pop()

    def _end_table(self) -> None:
        self.columns = ()
        if self.is_title:
            self._begin_term("")

    def _begin_message(self, message: re.Match[str]) -> bool:
        """Set the speaker and the open question; return whether the message has no words ("Time: 16:00")."""
        speaker = f"{message['who'].strip()}:"
        self.asked = "" if speaker == self.speaker else self.open_question
        self.speaker, self.open_question = speaker, ""
        is_empty = _ANY_LETTER.search(message["said"]) is None
        if is_empty:
            self._note(self._terms(message[0]), "")
        return is_empty

    def _begin_question(self, shown: str, stands_apart: bool) -> None:
        """Let the lines below answer a question that stands apart or behind its mark, else the next sentence."""
        if stands_apart or _QUESTION_MARK.match(shown):
            self._begin_term(shown_text(shown).strip("*_ "))
            self.leading = ""
        else:
            self.asked = shown
        self._note(self._terms(shown), "")

    def _begin_term(self, term: str) -> None:
        self.term, self.is_term_new, self.default, self.is_title = term, True, "", False

    def _add(self, start: int, end: int, shown: str, form: Form, above: frozenset[str]) -> None:
        text = self.text
        if not shown or not _LETTER.search(shown):
            return
        words = self._terms(shown)
        # The sentence taken in is `nearby`: its words must not make this one outrank it.
        before = frozenset[str]()
        for previous in self._pointed_at(shown, form, start, end):
            start, shown, before = previous.start, f"{previous.shown} {shown}", before | previous.words
        is_cut = (start == 0 and self.item.chunk.start > 0) or end == len(text)
        is_new_default = self.is_term_new and form in (Form.PROSE, Form.ITEM) and self._is_default(shown)
        lead = self._lead(shown, form)
        if is_new_default:
            self.default = shown.rstrip(".。 ")
        elif self.term and self.is_term_new:
            says_what = form is Form.PROSE and len(shown) <= _LONGEST_LEAD and not _DEFAULT_VALUE.match(shown)
            self.explained = shown if says_what else ""
        elif self.term and self.explained and form is Form.PROSE and _ELLIPTICAL.match(shown):
            lead = (
                self.explained
                if self.explained.startswith(self.term)
                else f"{self.term.rstrip(':：')}: {self.explained}"
            )
        beside = self._terms(self.heading) | before
        nearby = above | self.first | self.before | beside
        told = self._terms(f"{self.term}\n{self.leading}\n{lead}") | self._terms(" ".join(self.columns))
        self.asked = ""
        if self.speaker and (questions := _QUESTION.findall(shown)):
            self.open_question = questions[-1].strip()
        self.found.append(
            Quotable(
                self.item, self.place, start, end, shown, words | told, nearby, beside, is_cut, form, lead, self.heading
            )
        )
        self._note(words, shown)
        self.is_term_new = is_new_default

    def _pointed_at(self, shown: str, form: Form, start: int, end: int) -> list[Quotable]:
        """Return the preceding sentences needed to understand a sentence, the nearest first."""
        text, found = self.text, list[Quotable]()
        is_same = _SAME_AS_ABOVE.search(shown) is not None
        points = _POINTS_BACK.match(shown) or (not self.term and _POINTS_BACK_WITHIN.match(shown))
        # A value may be told in a paragraph of its own, but not of another value.
        is_value = not self.term and _ITS_VALUE.match(shown) is not None
        if form in (Form.ROW, Form.CODE) or not (is_same or (form is Form.PROSE and (points or is_value))):
            return found
        for previous in self.found[: -1 - (_TAKEN_IN if is_same else 1) : -1]:
            between = text[previous.end : start]
            is_near = not _LIST_MARK.sub("", between.strip() + " ").strip() and (is_value or "\n\n" not in between)
            is_text = previous.form in (Form.PROSE, Form.ITEM) and not (is_value and _ITS_VALUE.match(previous.shown))
            if not is_text or not is_near or end - previous.start > _LONGEST_PAIR:
                break
            found.append(previous)
            start = previous.start
        return found

    def _is_default(self, shown: str) -> bool:
        """Return whether a line states the default value of the term above."""
        is_short = len(shown) <= _LONGEST_LEAD
        return bool(self.term) and is_short and _DEFAULT_VALUE.match(shown) is not None

    def _lead(self, shown: str, form: Form) -> str:
        """Return the lead of a quote: speaker, question, term, default, lead-in, code or heading, if needed."""
        folded = shown.casefold()
        if self.speaker:
            said = shown if shown.startswith(self.speaker) else f"{self.speaker} {shown}"
            lead = said[: len(said) - len(shown)].strip()
            return f"{self.asked} {lead}".strip()
        if self.asked and form is Form.PROSE:
            return self.asked
        # The default of a setting may stand above what the setting means.
        is_said = self.default.casefold() in folded or self._is_default(shown)
        default = self.default if form is Form.PROSE and not is_said else ""
        if self.term and self.term.strip("`:： ").casefold() not in folded:
            return f"{self.term} ({default})" if default else self.term
        if default:
            return default
        if form is Form.PROSE and self.code_above and _POINTS_BACK_TO_CODE.match(shown):
            return self.code_above
        if form is Form.PROSE:
            # The referent is above the paragraph, if anywhere.
            return self.heading if _POINTS_BACK.match(shown) and self.heading.casefold() not in folded else ""
        leading = self.leading
        if not leading and form is Form.CODE and len(self.before_text) <= _LONGEST_LEAD:
            leading = self.before_text
        if leading and len(leading) <= _LONGEST_LEAD:
            return leading
        return self.heading if self.heading.casefold() not in folded else ""

    def _terms(self, text: str) -> frozenset[str]:
        return frozenset(terms_in(text, self.language))

    def _note(self, words: frozenset[str], shown: str) -> None:
        self.first, self.before = self.first or words, words
        is_code = shown.startswith("`") and shown.endswith("`")
        self.before_text, self.code_above = ("", shown) if is_code else (shown, "")


def _messages(text: str) -> dict[int, re.Match[str]]:
    """Return the messages of a conversation by the offsets of their lines; empty if the text is no conversation."""
    lines = re.finditer(r"[^\n]+", text)
    found = {line.start(): match for line in lines if (match := _MESSAGE.fullmatch(line[0])) is not None}
    speakers = Counter(match["who"].strip() for match in found.values())
    spoken = sum(_SPOKEN.search(match["said"]) is not None for match in found.values())
    return found if len(speakers) > 1 and max(speakers.values()) > 1 and spoken > 1 else {}


def _whole(spans: Sequence[tuple[int, int]], messages: Mapping[int, re.Match[str]]) -> list[tuple[int, int]]:
    """Merge the spans of each short message, and the greeting of a longer one with the sentence after it."""
    found: list[tuple[int, int]] = []
    begin = end = 0
    for span in spans:
        if message := messages.get(span[0]):
            begin, end = span[0], span[0] + len(message[0])
        is_within = begin < span[0] < end
        if is_within and (end - begin <= _SHORT_MESSAGE or (found[-1][1] - begin <= _GREETING)):
            found[-1] = (found[-1][0], span[1])
        else:
            found.append(span)
    return found


def _begins_paragraph(text: str, start: int) -> bool:
    before = text[:start].rstrip(" \t")
    return not before or before.endswith("\n\n") or re.search(r"\n[ \t]*\n$", before) is not None


def _breaks_off(shown: str) -> bool:
    """Return whether a line is an unfinished sentence, longer than most terms."""
    is_sentence = len(shown) >= _LEAST_HAN_SENTENCE if is_chinese(shown) else shown.count(" ") >= _LEAST_SPACES
    return is_sentence and shown[-1] not in _TERM_ENDS and len(shown) <= _LONGEST_LEAD


def _is_term(shown: str) -> bool:
    """Return whether a line of its own is a term that the paragraphs below it explain."""
    is_short = len(shown) <= _LONGEST_TERM and shown[-1] not in _TERM_ENDS and not shown.endswith(_LEADS_IN)
    # "Default: `True`" says something of the term above it.
    is_explained = _TERM_BEFORE_COLON.match(shown) is not None or _DEFAULT_VALUE.match(shown) is not None
    return is_short and not is_explained and not _LIST_MARK.match(shown) and not _FORMULA.match(shown)
