"""Understands a question by rules: its kind, its entities, its parts and the sides that it compares.

The rules use cue words, names and coordination in English and Chinese, fewer in other languages; `query.keywords` asks
a chat model if there is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import dropwhile, takewhile

from heliograph.text.analysis import is_chinese, question_language, stop_words, terms, word_list
from heliograph.text.asking import ASKING, GERMAN_INTERROGATIVE, asks, question_word_at
from heliograph.text.chinese import tag_words
from heliograph.text.patterns import late_pattern
from heliograph.text.phrases import SentenceReading, read_texts


class QuestionKind(StrEnum):
    """What a question asks for; the first four are the seed's, the others ours."""

    FACT = "fact"
    HOW_TO = "how_to"
    COMPARE = "compare"
    REASON = "reason"
    AGGREGATE = "aggregate"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class Understanding:
    """The kind, entities and structure of a question.

    Attributes:
        kind: Asks for one fact, instructions, a comparison, a cause or a chain of steps, everything of a kind, or about
            the documents as a whole.
        entities: Distinct names in the question, in order.
        expansions: Further words to search with.
        language: ISO 639-1 code.
        parts: The questions that it consists of, each understandable alone; empty for a single question.
        sides: The things compared, at least two; empty unless `kind` is `COMPARE` and the sides are named.
        by_model: Whether a chat model found this; else rules did.
    """

    kind: QuestionKind = QuestionKind.FACT
    entities: tuple[str, ...] = ()
    expansions: tuple[str, ...] = ()
    language: str = "en"
    parts: tuple[str, ...] = ()
    sides: tuple[str, ...] = ()
    by_model: bool = False


# Cues for the kind of a question, in English and Chinese.
#
# `CUES` is tried in order, and the first match decides, so the order matters: a comparison may be about causes, but a
# question about causes seldom compares. A weak cue counts only in a question without names, since "the main products"
# are a theme of a collection but a fact about a company. A question without any cue asks for a fact.


@dataclass(frozen=True, slots=True)
class Cue:
    """A pattern for a kind of question; a weak one counts only in a question without names."""

    kind: QuestionKind
    pattern: re.Pattern[str]
    is_weak: bool = False


def _cue(kind: QuestionKind, *alternatives: str, weak: bool = False) -> Cue:
    return Cue(kind, late_pattern("|".join(alternatives)), weak)


_ASKS = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)"
# Words of degree; "other than" and "rather than" compare nothing.
_DEGREE = r"(?:(?!other|rather|ever|never|over|under|after)[a-z]+er|more|less|better|worse|more [a-z]+|less [a-z]+)"
_FIRST = r"(?:first|last|earlier|earliest|later|latest|older|oldest|younger|youngest|longer|bigger|more|most)"
# Plural nouns for what many texts have in common.
_SHARED = (
    r"(?:themes?|topics?|points|ideas|findings|takeaways|insights|messages|lessons|challenges|problems|issues|concerns"
    r"|questions|trends|patterns|arguments|opinions|views|perspectives|conclusions|subjects)"
)

# Speakers in many texts, their verbs of speaking, and nouns for the result.
_VOICES = (
    r"(?:guests|speakers|hosts?|leaders|authors|writers|participants|interviewees|respondents|experts|customers|users"
    r"|employees|engineers|reviewers|people|documents|articles|reports|papers|texts|episodes|interviews|discussions"
    r"|conversations|stories|podcasts?)"
)
_SAYS = (
    r"(?:sa(?:y|id)|speak|talk(?:ing)?|discuss(?:ed|ing)?|mention(?:ed|ing)?|describ(?:ed?|ing)|cited?|shared?"
    r"|express(?:ed)?"
    r"|emphasi[sz]ed?|highlight(?:ed|ing)?|address(?:ed)?|ask|perceived?|proposed?|suggest(?:ed)?|predict(?:ed)?"
    r"|view|see|feel"
    r"|think|believe|envision|speculate|approach|typically|generally|commonly|often|frequently)"
)
_TALK = r"(?:discussions|conversations|stories|anecdotes|examples|mentions|quotes|patterns|themes|topics|references)"

_SPEAKING_OF = (
    r"(?:including|covering|considering|describing|detailing|discussing|focusing on|highlighting|noting|touching on)"
)

CUES = (
    # "Why" comes first, whatever else the question holds.
    _cue(QuestionKind.REASON, r"^(?:and |but |so )?why\b", r"^how come\b", r"\bexplain why\b", r"^为什么|^为何"),
    _cue(
        QuestionKind.GLOBAL,
        r"\bsummar(?:i[sz]e|y|ies)\b|\boverview\b|\bgist\b|\btake-?aways?\b",
        r"^(?:overall|in general|generally|on the whole)\b",
        r"^(?:please )?(?:describe|characteri[sz]e|outline|trace|explain)\b.*\b(?:events|stages|phases|developments?"
        r"|evolution|trends|transformations|characteristics|factors|consequences|systems|aspects)\b",
        rf"^(?:please )?(?:describe|characteri[sz]e|outline|trace|discuss|explain) (?!how to\b).*"
        rf"(?:, {_SPEAKING_OF} |\band (?:its|their|how) )",
        r"^(?:(?:from|according to) [\w ]{2,40}, )?what (?:(?:are|were) the )?(?:key|defining|primary|major|main"
        r"|fundamental) (?:[\w-]+,? ){0,6}(?:aspects|changes|characteristics|developments|elements|events|factors"
        r"|features|functions|shifts|traits|transformations)\b",
        r"^what (?:were|are) (?:the|some) (?:\w+ ){0,2}(?:stages|phases|events|developments|transformations) (?:of|in"
        r"|that|around|leading)\b",
        r"(?:经历了?|分为|有)(?:哪些|哪几个|几个)(?:主要)?(?:阶段|时期)|来龙去脉|(?:发展|演变)(?:历程|过程)",
        r"\b(?:across|throughout) (?:all |the |these )?(?:whole |entire )?"
        r"(?:documents?|interviews?|episodes?|texts?|reports?|collection|corpus|discussions?|data ?set)",
        r"\b(?:these|this|the|all) (?:documents?|collection|corpus|knowledge base|texts?|data ?set) (?:about"
        r"|cover|contain)",
        r"\bof (?:these|this|the) (?:documents?|collection|corpus|knowledge base|texts|data ?set)\b",
        r"^(?:请)?(?:帮我)?(?:总结|概述|概括|归纳|综述)|总体(?:来看|上|而言)|整体(?:来看|上|而言)|综合来看",
        r"这(?:些|个|份|批)(?:文档|资料|文件|资料库|知识库|文章|语料)(?:的|讲|主要|是|里|中)",
    ),
    _cue(
        QuestionKind.GLOBAL,
        rf"\b{_VOICES}\b.*\b{_SAYS}\b|\b{_SAYS}\b.*\b(?:by|from|among|of|in) (?:\w+ ){{0,2}}{_VOICES}\b",
        rf"\baccording to (?:\w+ ){{0,2}}{_VOICES}\b",
        weak=True,
    ),
    _cue(
        QuestionKind.COMPARE,
        r"\bvs\b\.?|\bversus\b|\bcompar(?:e|es|ed|ing|ison)\b",
        r"\bdifferences?\b.*\b(?:between|from)\b|\bdiffer(?:s|ed)?\b|\bdifferent from\b|\bdistinguish(?:es)?\b",
        r"\bin common\b|\bsimilarit(?:y|ies) (?:between|of)\b|\b(?:dis)?advantages? of\b.*\bover\b",
        rf"\b{_DEGREE} than (?!\W*\d)",
        rf"^{_ASKS}\b.*\b(?:both|same|either|share)\b.*\b(?:and|or)\b",
        rf"^{_ASKS}\b.*\b(?:and|or)\b.*\b(?:both|the same|{_FIRST}|equally|[a-z]{{3,}}ier)\b",
        r"^(?:which|who|whose|what|between|out of|of)\b.*,\s.*\bor\b",
        rf"^(?:which|who|whose|what)\b.*\b{_FIRST}\b.*\b(?:or|out of .+ and)\b",
        r"^(?:both|between)\b.*\band\b|\band\b.*,? (?:are|were) both\b|\bsame [a-z]+ as\b|\brespective(?:ly)?\b",
        r"区别|差异|差别|异同|相同点|共同点|共同之处|不同之处|不同点|有(?:什么|何|哪些)不同|(?<!能)相比|对比|比较(?:一下)?.*[和与跟同及]",
        r"(?:相对于|相较于|较之).*(?:优势|优点|劣势|改进|好处)|优劣|孰",
        r"[和与跟、].+(?:哪(?:个|一个|部|位|家|种|座|条|者)|谁)[^，。？?]{0,6}(?:更|先|比较|最|较)|还是.*(?:更|先|早|晚|好|大)",
        r"比[^赛例如分重率方作].*(?:更|重|轻|大|小|长|短|高|低|快|慢|早|晚|多|少|好|贵|便宜)[^。]*吗",
        r"[和与跟、][^？?]+(?:都|同一|相同|一样)",
        r"\bunterschied\w*\b.*\b(?:zwischen|von|zu)\b|\bunterscheide[tn]\b|\bvergleich\w*\b|\bhaben\b.*\bgemeinsam\b",
        r"\b(?:diff[ée]rences?|diferencias?|diferenças?|differenz[ae])\b.*\b(?:entre|tra|fra)\b",
    ),
    _cue(
        QuestionKind.REASON,
        r"\bwhat (?:caused|causes|led to|leads to|triggered|explains|makes|made)\b|\bcauses? of\b",
        r"\breasons?\b(?! to\b)|\bbecause of what\b|\bconsequences?\b|\b(?:impact|effects?|influence) (?:of|on"
        r"|did|does|do|has|had)\b",
        r"\bwhat (?:impact|effects?|influence)\b|\bwhat (?:happens|happened|would happen|will happen)\b",
        r"\bhow (?:did|does|do|has|have|will|would)\b.*\b(?:affect|influence|impact|lead to|contribute|change)\b",
        r"\b(?:connected|connection|relationship|related|relation)\b.*\b(?:to|with|between)\b",
        r"为什么(?![？?]?$)|[这那又都竟底]是?为什么|为何(?![？?]?$)|何以|缘故|原因|导致|造成|引起(?!的)|怎么回事|怎么会|后果|会怎(?:么)?样|会发生什么",
        r"(?:什么|何|哪些|怎样的)影响|如何影响|怎么影响|(?:什么|何|哪种|怎样的)(?:关系|联系)|影响了?什么",
    ),
    _cue(
        QuestionKind.HOW_TO,
        r"^how (?:can|should|could|must) (?:my|our|an?|the|this)\b",
        r"\bhow to\b|\bhow does one\b|\bhow (?:can|do|should|could) (?:i|we|you|one)\b",
        r"\bsteps\b|\bprocedures?\b|\binstructions?\b|\bwalk me through\b|\bguide (?:me|to|for)\b|\btutorial\b",
        r"\bwhat (?:do|must|should) (?:i|we|you) (?:need to |have to )?do\b|\bprocess (?:for|of|to)\b",
        r"如何(?!看|评|影响|理解|称|[？?]?$)|怎么(?!样|回事|会|了|看|评|死|称|说|读|拼|写|叫|念)|怎样(?!的|看)|步骤|流程|教我|教程$|操作方法|的方法$|方法是",
        r"(?:需要|应该|应当|要)(?:做|办)(?:些)?什么",
    ),
    _cue(
        QuestionKind.GLOBAL,
        rf"\b(?:main|key|central|common|recurring|major|overarching|prevailing|core|dominant|important|biggest"
        rf"|frequent)\b"
        rf"(?: \w+){{0,3}} {_SHARED}\b",
        rf"\b{_SHARED}\b.*\b(?:most (?:often|frequently|commonly)|emerge|recur|recurring|repeatedly|come up|arise)\b",
        rf"\bwhat {_SHARED} (?:do|does|are|can|have|is)\b|\b(?:recurring|trends?)\b",
        r"\b(?:most (?:often|frequently|commonly)|how (?:frequently|often)) (?:\w+ ){0,3}(?:discuss|mention|talk"
        r"|address)",
        rf"\bare there (?:\w+ ){{0,2}}{_TALK}\b|\bwhat (?:\w+ )?{_TALK} (?:are|do|does|is|have)\b",
        r"\b(?:attitudes?|perspectives?|opinions?|views?|sentiments?|perceptions?)\b.*\b(?:on|towards?|about|of"
        r"|regarding)\b",
        r"\bhow (?:do|does) (?:\w+ ){1,3}(?:feel|think|view|perceive|talk|describe|approach|see)\b",
        r"主要(?:主题|内容|问题|观点|话题|挑战|趋势|结论|有哪些)|核心(?:观点|主题|内容|思想)|最常(?:出现|提到|见|讨论|被)"
        r"|趋势|反复(?:出现|提到|反馈|强调)|普遍|主题(?:是|有)|共同(?:主题|话题|问题)|如何看待|怎么看待",
        weak=True,
    ),
    _cue(
        QuestionKind.AGGREGATE,
        r"^(?:please )?(?:list|enumerate|count)\b|\b(?:give|show|find) (?:me )?(?:all|every|a list|each)\b"
        r"|\blist (?:all|of all)\b",
        r"^name (?:all|every|each|the \w+s\b)|\b(?:what|which) are all\b|\btotal number\b|\bhow many times\b"
        r"|\bhow often\b",
        r"列出|列举|罗列|统计|一共|总共|总计|总数|哪几|所有.*(?:哪些|哪几|什么)|(?<![第几])几(?:次|位|个|名|台|家|种|条|本|部|项|人)",
    ),
    # Chains: an attribute of something that is itself described, not named.
    _cue(
        QuestionKind.REASON,
        r"\b(?!name|names|kind|type|title|number|amount|part|one|some|all|each|most|date|year|city|place"
        r"|sort)[a-z]+ of (?:the |an? |his |her |its )?"
        r"(?:[\w-]+ ){1,4}(?:of|that|which|who|whom|whose|where) ",
        r"^(?:when|where|how old|what [a-z]+|which [a-z]+)\b.*\bthe "
        r"(?!number|center|member|order|error|layer|letter|paper|power|water|other)[a-z]+(?:or|er|ist) of ",
        r"'s (?:[\w-]+ ){1,3}(?:of|'s)|'s [\w-]+'s\b|\bthe (?:country|state|city|company|person|film|book|band"
        r"|team|club|league|school|county|author|director|"
        r"actor|singer|group) (?:where|whose|that|which|in which|who) ",
        r"的[^的，,。；]{1,12}的[^的，,。；]{1,12}(?:是|叫|为|在|有|属|位|什么|哪|谁|多少|几)",
    ),
    _cue(
        QuestionKind.AGGREGATE,
        r"\bhow many\b",
        r"^which (?:\w+ ){0,2}(?!was|is|has|does|bus|status|process|class|address|access|us)[a-z]{3,}s "
        r"(?!(?:was|is|has|does)\b)[a-z]+",
        r"^in which (?:\w+ )?(?:countries|cities|years|places|cases)\b",
        r"哪些|多少(?:个|人|次|名|位|台|家|种|条|本|部|项|座|所|篇)",
    ),
)


# The sides of a comparison.
#
# Explicit forms come first ("X vs Y", "between X and Y", "X和Y的区别", "..., X or Y?"), since a name may be recognised
# only in part; then names joined by "and", "or", a comma or a Chinese conjunction. Sides keep the question's spelling.

_MAX_SIDES = 4
_LONGEST = 120

# A side: any text up to a sign that ends it.
_SIDE = r"[^,;?!]{1,120}?"
_FORMS = tuple(
    late_pattern(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?P<a>{_SIDE})\s+(?:vs\.?|versus)\s+(?P<b>{_SIDE})(?:[,;?!]|\s+(?:for|in|on|with|when)\s|$)",
        rf"\b(?:between|compare|comparing|comparison of)\s+(?P<a>{_SIDE})\s+(?:and|with|to|against)\s+"
        rf"(?P<b>{_SIDE})(?:[,;?!.]|:\s(?-i:[a-z])|\s+(?:in|for|on|when|regarding|with respect)\s|$)",
        rf"\b(?:zwischen|vergleiche|vergleich von|unterscheide[tn] sich|entre|tra|fra)\s+(?P<a>{_SIDE})\s+"
        rf"(?:und|mit|von|et|y|e|ed)\s+(?P<b>{_SIDE})(?:[,;:?!.]|\s+(?:bei|in|im|für|auf|hinsichtlich|beim)\s|$)",
        rf"\bhaben\s+(?P<a>{_SIDE})\s+und\s+(?P<b>{_SIDE})\s+gemeinsam\b",
        rf"\badvantages?\s+of\s+(?P<a>{_SIDE})\s+over\s+(?P<b>{_SIDE})[?.!]*$",
        r",\s*(?P<a>[^?!]{1,120}?)\s+or\s+(?P<b>[^?!]{1,120}?)\s*[?.!]*$",
        rf"\bboth\s+(?P<a>{_SIDE})\s+and\s+(?P<b>{_SIDE})(?:[?.!]|\s+(?:have|has|are|is|was|were|come|share"
        rf"|located|born"
        rf"|directed|(?:from|in|of|on|at) (?:the )?same)\b|$)",
        rf"\bwhat\s+(?:do|does|did)\s+(?P<a>{_SIDE})\s+and\s+(?P<b>{_SIDE})\s+(?:have|share)\b",
        rf"^how\s+(?:do|does|did)\s+(?P<a>{_SIDE})\s+and\s+(?P<b>{_SIDE})\s+(?:differ|compare)\b",
        rf"\bhow\s+(?:do|does|is|are)\s+(?P<a>{_SIDE})\s+(?:differ(?:ent)?|compare[ds]?)\s+(?:from|to|with)\s+"
        rf"(?P<b>{_SIDE})[?.!]*$",
        rf"^(?:is|are|was|were|do|does|did|has|have)\s+(?P<a>{_SIDE})\s+(?:and|or)\s+(?P<b>{_SIDE})\s+(?:both\b"
        rf"|the same\b|"
        rf"located\b|from\b|in\b|of\b|born\b|have\b|directed\b|share\b|equally\b|either\b|(?:more|less|older"
        rf"|younger)\b|"
        rf"[a-z]+ier\b)",
        rf"^(?:is|are|was|were|does|do|did)\s+(?P<a>{_SIDE})\s+[\w-]+er\s+than\s+(?P<b>{_SIDE})[?.!]*$",
        r"(?:比较|对比)(?:一下)?(?P<a>[^，。？?]{1,40}?)[和与跟同及、](?P<b>[^，。？?]{1,40}?)(?:的|[，。？?]|$)",
        r"(?P<a>[^，。？?]{1,40}?)\s*(?:对比|vs\.?|VS)\s*(?P<b>[^，。？?]{1,40}?)(?:的|[，。？?]|$)",
        r"(?:相比|相比于|相较于|较之|与)?(?P<a>[^，。？?]{1,40}?)相(?:对于|较于|比于)(?P<b>[^，。？?]{1,40}?)(?:的|有|，|[。？?])",
        r"^(?:与|和)?相比(?:于)?(?P<a>[^，。？?]{1,40}?)，(?P<b>[^，。？?]{1,40}?)(?:的|有|更)",
        r"(?P<a>[^，。？?]{1,40}?)\s*(?:和|与|跟|同|及|、)\s*(?P<b>[^，。？?]{1,40}?)\s*(?:的|之间|有|哪|谁|都|在|流经|是|属于|相比|来自)",
        r"(?P<a>[^，。？?]{1,40}?)是?(?:，)?还是(?P<b>[^，。？?]{1,40}?)(?:更|先|早|晚|好|[，。？?]|$)",
        r"(?P<a>[^，。？?]{1,40}?)比(?P<b>[^，。？?]{1,40}?)(?:更|重|轻|大|小|长|短|高|低|快|慢|早|晚|多|少|好|贵|便宜)",
    )
)
_LEAD = late_pattern(
    r"^(?:the\s+)?(?:differences?|similarit(?:y|ies))\s+(?:between|of)\s+|^(?:both|either|whether)\s+"
    r"|^the (?:films?|movies?|songs?"
    r"|bands?|people|directors?)\s+(?=[A-Z\"“])|^(?:请)?(?:比较|对比)(?:一下)?|^请问",
    re.IGNORECASE,
)
_JOINED = late_pattern(
    r"\s*(?:,\s*(?:and|or|und|oder)\s|,|\b(?:and|or|und|oder|vs|versus)\b\.?|和|与|跟|同|或|、|还是)\s*(?:the\s+|an?\s+)?"
)

_BEFORE_SIDE = r"(?:\s*(?:,|\b(?:and|or|und|oder|vs|versus)\b\.?|和|与|跟|同|、|还是|对比))?\s*"
_AFTER_SIDE = r"(?:\s*,?\s*\b(?:and|or|und|oder|vs|versus)\b|\s*(?:和|与|跟|同|、|还是|对比))?"


def find_sides(question: str, entities: Sequence[str]) -> tuple[str, ...]:
    """Return the two to four sides of a comparison, or none if the question does not name them."""
    text = " ".join(question.split())
    for form in _FORMS:
        match = form.search(text)
        sides = _cleaned([*match["a"].split(", "), match["b"]]) if match else ()
        if len(sides) >= 2:
            return sides
    # The first run of names with only conjunctions between them.
    run: list[str] = []
    end = -1
    for name in entities:
        start = text.find(name, max(end, 0))
        if start < 0:
            continue
        if not run or not _JOINED.fullmatch(text[end:start]):
            if len(run) >= 2:
                break
            run = []
        run.append(name)
        end = start + len(name)
    named = _cleaned(run)[:_MAX_SIDES]
    if len(named) >= 2:
        return named
    return tuple(entities[:_MAX_SIDES]) if 2 <= len(entities) <= _MAX_SIDES else ()


def _cleaned(sides: Sequence[str]) -> tuple[str, ...]:
    cut = (_LEAD.sub("", side.strip(" \"'“”‘’")).strip() for side in sides)
    return tuple(dict.fromkeys(side[:_LONGEST] for side in cut if side))[:_MAX_SIDES]


def side_question(question: str, sides: Sequence[str], side: str) -> str:
    """Return the question without the other sides, to search for one side.

    A side that a chat model named in other words cannot be removed. `side` is appended if the question does not name
    it.
    """
    text = question
    for other in sides:
        if other != side and other not in side:
            text = re.sub(_BEFORE_SIDE + re.escape(other) + _AFTER_SIDE, " ", text, count=1, flags=re.IGNORECASE)
    text = re.sub(r"\s+(?=[,.?!，。？！])", "", " ".join(text.split()))
    return text if side.casefold() in text.casefold() else f"{text} {side}"


# The questions that one question consists of.
#
# A question is split after a question mark, at a conjunction or comma with an interrogative on both sides, and at the
# second item of a requested list; one asked of several things ("the ports of A and of B", "甲和乙的端口分别是多少")
# becomes one question for each. Each part is made to stand alone: a pronoun is replaced by the earlier name, a missing
# subject is filled in, and a part that only names another thing ("and what about B?") repeats the earlier question for
# it. If a part cannot be understood alone, the question stays whole.

MAX_PARTS = 4
_LEAST_WORDS = 2
_LEAST_HAN = 3

_ASKING = r"(?:who|whom|whose|what|when|where|why|which|how)"
_INTERROGATIVE = late_pattern(rf"\b{_ASKING}\b", re.IGNORECASE)
_AUXILIARY = r"(?:is|are|was|were|do|does|did|can|could|should|must|may|will|would|has|have|had)"
_ASKS_FROM_START = late_pattern(rf"{_AUXILIARY}\b", re.IGNORECASE)
_PREPOSITION = r"(?:in|on|at|of|for|from|by|to|with|under|after|before|since|until|over|through)"
_BREAK = late_pattern(
    # A lower-case word after a question mark continues the sentence around a title.
    r"(?<=[?？])\s*(?=[^\sa-z])"
    rf"|\s*[,;]?\s+(?:[Aa]nd|[Bb]ut|[Oo]r)\s+(?:also\s+|then\s+|if so,?\s+)?(?=(?i:(?:{_PREPOSITION}\s+)?{_ASKING}\s+"
    rf"(?:{_AUXILIARY}|to|many|much|long|often|old|far|he|she|it|they|its|his|her|their|[a-z]+ed|[a-z]+s)\b))"
    rf"|\s*[,;]?\s+(?:[Aa]nd|[Bb]ut)\s+(?=(?i:(?:{_PREPOSITION}\s+)?(?:which|what|whose)\s+(?:[\w-]+\s+){{1,4}}"
    rf"{_AUXILIARY}\b))"
    rf"|\s*[,;]\s+(?:[Aa]nd|[Bb]ut)\s+(?=(?i:(?:{_PREPOSITION}\s+)?{_ASKING}\b))"
    # "and which command frees the space", "and which option of X makes the"; `find_parts` needs a question before it.
    r"|\s+and\s+(?=(?:which|what)\s+(?:[\w-]+\s+){1,4}?(?!is\b|was\b|has\b|does\b)[a-z]{2,}s\s+(?:an?|the|its|all|every"
    r"|each|no|it|them|to|in|on|from|up|down|off|out)\b)"
    rf"|;\s+(?=(?i:{_ASKING})\b)"
    # "and does the editor ask for a login"; not "and is the author of".
    r"|\s*,\s+(?:[Aa]nd|[Bb]ut)\s+(?=(?:does|do|did|can|could|should|must|will)\s+(?:the|an?|it|they|he|she|you|I|one|its|[A-Z]))"
)
_ASKING_DE = rf"(?:was|{GERMAN_INTERROGATIVE})"
_BREAK_DE = late_pattern(
    rf"(?<=\?)\s*(?=(?-i:[^\sa-z]))|\s*[,;]?\s+(?:und|oder|aber)\s+(?=(?:[a-z]+\s+)?{_ASKING_DE}\b)", re.IGNORECASE
)
_GERMAN = late_pattern(
    rf"(?:(?:in|an|auf|mit|von|zu|bei|aus|nach|seit|für|über|durch)\s+)?{_ASKING_DE}\b", re.IGNORECASE
)
_BREAK_ZH = late_pattern(
    r"(?<=[?？])\s*(?=\S)|[，,；;]\s*(?:并且|而且|以及|还有|同时|另外|此外|又|并)?|(?:以及|还有|并且)(?=.*(?:谁|什么|哪|几|多少|如何|怎|何))"
)
_ASKING_ZH = (
    r"谁|什么|哪|(?<!好)几(?!乎)|多少|如何|怎|为何|何时|何地|何处|多(?:大|长|高|深|久|远|重)|吗"
    r"|[是能可]否|会不会|能不能|要不要|可不可以|该不该"
)
_INTERROGATIVE_ZH = late_pattern(_ASKING_ZH)
_COURTESY_ZH = late_pattern(r"(?:请问|有?谁知道|谁能告诉我|你知道吗|请告诉我|我想(?:知道|问)(?:一下)?|想请教一下)")
_PRONOUN = late_pattern(
    r"\b(it|he|him|she|they|them|this|that one|there)\b|\b(its|his|her|hers|their)\b", re.IGNORECASE
)
_PRONOUN_ZH = late_pattern(r"(?:它|他|她|其|该(?:公司|项目|产品|工具|人)?|这(?:个|家|部|位|种|款)(?![^的是]{3}))们?")
# Such a part repeats the question of the part before it.
_ALSO_OF = late_pattern(
    r"^(?:and )?(?:(?:what|how) about|what of)\s+(?P<en>.{2,60}?)[?.]*$|^那?么?(?P<zh>.{1,20}?)呢[?？]?$", re.IGNORECASE
)
# "the next one" names nothing.
_ONE_OF_MANY = late_pattern(r"\b(?:one|ones|next|following|others?|rest|that|this)\b|[另其]|下一|这|那", re.IGNORECASE)
_ELLIPSIS = late_pattern(r"^(?:and )?(?:what|how) else\b", re.IGNORECASE)
_BARE = late_pattern(rf"^({_ASKING})[?.]*$", re.IGNORECASE)
# "Which Octave function finds a zero, and which starts a timer?": the noun asked for twice is named once.
_ASKED_NOUN = late_pattern(
    r"(?:which|what)\s+((?:[\w-]+\s+){0,3}?[\w-]+)\s+(?!is\b|does\b|has\b|was\b)[a-z]+s\b", re.IGNORECASE
)
_WITHOUT_NOUN = late_pattern(
    r"(which|what)\s+(?=(?!is\b|does\b|has\b|was\b)[a-z]+s\s+(?:an?|the|its|all|every|each|no|it|them|to|in|on|from|up|down|off|out)\b)"
)
# "From which device does it read a DVD, and from which a video CD?": the common verb is named once.
_ASKED_FIRST = rf"^(?P<asks>(?:\w+\s+)?(?:{_ASKING}|{_ASKING_DE}))\s+"
_OBJECT = r"(?P<object>\b(?:an?|the|eine?[nmrs]?|de[rmn]|die|das)\s[^,;?]*)"
_WITHOUT_VERB = late_pattern(rf"{_ASKED_FIRST}{_OBJECT}", re.IGNORECASE)
_WITH_OBJECT = late_pattern(rf"{_ASKED_FIRST}(?P<verb>[^,;?]{{2,80}}\s){_OBJECT}", re.IGNORECASE)
_PART_LEAD = late_pattern(
    r"^(?:and|but|or|also|then|und|oder|aber)\s+|^(?:并且|而且|以及|还有|同时|另外|此外|又|并)", re.IGNORECASE
)
_OPENING = late_pattern(rf"^(?:{_PREPOSITION}\s+)?{_ASKING}\b\s*", re.IGNORECASE)
_LIST_OF = late_pattern(
    r"^(?:please\s+)?(?:list|give|name|tell|show|state)(?:\s+(?:me|us))?\s+(?P<a>the\s+.{5,120}?),?\s+and\s+"
    r"(?P<b>the\s+.{5,120}?)[.?!]*$",
    re.IGNORECASE,
)
_THING = rf"(?!(?:{_ASKING}|{_ASKING_DE})\b)[^,?]{{2,60}}?"
_SHORT_THING = rf"(?!{_ASKING}\b)[\w.+/-]+(?:\s[\w.+/-]+){{0,3}}"
_OF_EACH = (
    late_pattern(
        rf"^(?P<head>.{{6,120}}?\b(?P<of>of|for|in|by|from|to|von|für|bei|mit))\s+(?P<a>{_THING})[?,]?\s+(?:and|und)\s+"
        rf"(?P=of)\s+(?P<b>{_THING})(?P<tail>[?.]*)$",
        re.IGNORECASE,
    ),
    late_pattern(
        rf"^(?P<head>what\s+are\s+the\s+[\w -]{{2,60}}?s\s+(?:of|for|in))\s+"
        rf"(?P<a>{_THING}|(?:{_SHORT_THING}, ){{1,2}}{_SHORT_THING},?)\s+and\s+(?P<b>{_THING})"
        r"(?P<tail>(?:,?\s+respectively)?[?.]*)$",
        re.IGNORECASE,
    ),
)
_OF_EACH_ZH = late_pattern(
    r"^(?P<a>[^，。？?和与跟及]{1,90}?)\s*[和与跟及、]\s*(?P<b>[^，。？?和与跟及、]{1,30}?)(?P<rest>\s*(?:的.{2,}|中|里|在|由).*?)"
    r"(?:分别|各自|各)(?P<tail>.*)$"
)
# Parts of speech that a Chinese subject consists of.
_NOMINAL = frozenset(
    {"n", "nz", "nw", "nr", "ns", "nt", "s", "t", "r", "a", "b", "vn", "an", "PER", "LOC", "ORG", "TIME"}
)
# The subject of an English question: "how big is the buffer", "where does the keeper sleep".
_SUBJECT = late_pattern(
    rf"\b(?:(?P<be>is|are|was|were)|{_AUXILIARY})\s+(?:the|an?)\s+(?P<words>[\w-]+(?:\s+[\w-]+){{0,5}})", re.IGNORECASE
)
# The subject of the first part of a Chinese question, up to its verb or particle.
_SUBJECT_ZH = late_pattern(r"^(.{1,16}?)(?:的|是|在|由|用|于|默认|叫|有|从|位于)")


def find_parts(question: str, entities: Sequence[str]) -> tuple[str, ...]:
    """Return the two to four questions that a question consists of, or none for a single one."""
    text = " ".join(question.split())
    chinese = is_chinese(text)
    if each := _of_each(text, chinese):
        return each
    if (language := question_language(text)) not in ("en", "zh", "de"):
        return _parts_in(text, language)
    breaks = _BREAK_ZH if chinese else _BREAK_DE if _GERMAN.match(text) and _BREAK_DE.search(text) else _BREAK
    pieces = [_PART_LEAD.sub("", piece.strip(" ,，;；")) for piece in breaks.split(text)]
    pieces = [piece for piece in pieces if any(map(str.isalnum, piece)) and not _COURTESY_ZH.fullmatch(piece)]
    merged = pieces if breaks is _BREAK_DE else _merge(pieces, chinese)
    if len(merged) < 2 or any(_ELLIPSIS.search(part) for part in merged):
        return ()
    asked: list[str] = []
    for part in merged[:MAX_PARTS]:
        alone = _standing_alone(part, asked, entities)
        if not alone:
            return ()
        asked.append(alone)
    return tuple(asked)


def _parts_in(text: str, language: str) -> tuple[str, ...]:
    """Return the parts of a question in another language; none unless each of them has a question word."""
    if (asking := asks(language, "words")) is None:
        return ()
    spans: list[tuple[int, int]] = []
    begin = 0
    # A piece without a question word belongs to the question after it; the last piece, to the question before it.
    for end, following in (*(match.span() for match in _break_in(language).finditer(text)), (len(text), len(text))):
        if not asking.search(text, begin, end):
            continue
        if spans and _goes_on_inside(text[slice(*spans[-1])], text[begin:end], language):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((begin, end))
        begin = following
    if spans:
        spans[-1] = (spans[-1][0], len(text))
    asked = [text[start:end] for start, end in spans]
    asked = [part.strip(" ,，、;") for part in asked]
    is_long = all(
        len(part.split()) > _LEAST_WORDS or (language in ("ja", "ko") and len(part) > 2 * _LEAST_HAN) for part in asked
    )
    return tuple(asked[:MAX_PARTS]) if len(asked) > 1 and is_long else ()


def _goes_on_inside(part: str, piece: str, language: str) -> bool:
    """Return whether a piece begins with a question word that also joins clauses within the part before it.

    "Que se passe-t-il quand il démarre et quand il s'arrête ?" is one question.
    """
    opening, joined = question_word_at(part, language), question_word_at(piece, language)
    if joined is None:
        return False
    rest = part[opening.end() :] if opening else part
    return joined["word"].casefold() in re.findall(r"\w+", rest.casefold())


@cache
def _break_in(language: str) -> re.Pattern[str]:
    """Return the pattern between two questions in a language with rules for question words only."""
    asking = ASKING[language]
    if language in ("ja", "ko"):
        return re.compile(asking.joins)
    # "et où", "y en qué archivo": a preposition may stand before the question word.
    opens = rf"(?=(?:\w{{1,6}}\s+)?(?:{asking.goes_on})\b)" if asking.goes_on else ""
    return re.compile(rf"(?<=\?)\s*(?=\S)|\s*[,;]?\s+(?:{asking.joins})\s+{opens}", re.IGNORECASE)


def _of_each(text: str, chinese: bool) -> tuple[str, ...]:
    """Split a question about several things into one question for each."""
    if chinese:
        match = _OF_EACH_ZH.search(text)
        things = (*match["a"].split("、"), match["b"])[:MAX_PARTS] if match else ()
        return tuple(f"{thing.strip()}{match['rest']}{match['tail']}" for thing in things) if match else ()
    if match := _LIST_OF.search(text):
        return match["a"], match["b"]
    match = next(filter(None, (form.search(text) for form in _OF_EACH)), None)
    if match is None or _ONE_OF_MANY.search(match["b"]):
        return ()
    return tuple(f"{match['head']} {thing}?" for thing in (*match["a"].rstrip(",").split(", "), match["b"]))


def _merge(pieces: Sequence[str], chinese: bool) -> list[str]:
    """Merge each piece that asks nothing into the next one that asks something; a last one, into the one before."""
    merged: list[str] = []
    waiting: list[str] = []
    has_asked, comma = False, "，" if chinese else ", "
    for piece in pieces:
        has_asked = has_asked or _has_interrogative(piece, chinese, is_first=not waiting)
        waiting.append(piece)
        if not has_asked:
            continue
        # Join only once something is asked, so that many pieces that ask nothing take linear time.
        whole = comma.join(waiting)
        if chinese:
            # A later piece as short as "用哪个键" only specifies the one before it.
            is_long = len(whole.rstrip("?？")) > _LEAST_HAN + (2 if merged and not _ALSO_OF.match(whole) else -1)
        else:
            is_long = len(whole.split()) >= _LEAST_WORDS or (bool(merged) and _BARE.match(whole) is not None)
        if is_long:
            merged.append(whole)
            waiting, has_asked = [], False
    if waiting and merged:
        merged[-1] = f"{merged[-1]}{'，' if chinese else ' '}{comma.join(waiting)}"
    return merged


def _has_interrogative(piece: str, chinese: bool, *, is_first: bool) -> bool:
    if chinese:
        return _INTERROGATIVE_ZH.search(piece) is not None or _ALSO_OF.match(piece) is not None
    return _INTERROGATIVE.search(piece) is not None or (is_first and _ASKS_FROM_START.match(piece) is not None)


def _standing_alone(part: str, before: Sequence[str], entities: Sequence[str]) -> str:
    """Return a part as a self-contained question; empty if it cannot be understood alone."""
    if not before:
        return part
    first = before[0].rstrip("?？ ")
    named = [name for name in entities if any(name in earlier for earlier in before)]
    if match := _ALSO_OF.match(part):
        other = match["en"] or match["zh"]
        if _ONE_OF_MANY.search(other):
            return ""
        subject = named[0] if len(named) == 1 else _subject(first)
        return f"{first.replace(subject, other)}?" if subject and subject in first else ""
    if match := _BARE.match(part):
        return f"{match[1].lower()} {_OPENING.sub('', first)}?"
    if (noun := _ASKED_NOUN.match(first)) and (match := _WITHOUT_NOUN.match(part)):
        return f"{match[1]} {noun[1]} {part[match.end() :]}"
    gapped, whole = _WITHOUT_VERB.match(part), _WITH_OBJECT.match(first)
    if gapped and whole and gapped["asks"].casefold() == whole["asks"].casefold():
        return f"{whole['asks']} {whole['verb']}{part[gapped.start('object') :]}"
    if any(name in part for name in entities):
        return part
    subject = _subject(first)
    if named and named[0] not in subject:
        subject = named[0]
    if not subject:
        return part
    chinese = is_chinese(part)
    pointing = (_PRONOUN_ZH if chinese else _PRONOUN).search(part)
    if pointing:
        owner = not chinese and pointing[2]
        return f"{part[: pointing.start()]}{subject}{'’s' if owner else ''}{part[pointing.end() :]}"
    if chinese and not _has_subject(part):
        return f"{subject}{part}"
    return part


def _subject(first: str) -> str:
    """Return the subject of a first part without a name: in Chinese the text before its verb, else after it."""
    if not is_chinese(first):
        match = _SUBJECT.search(first)
        spoken = match["words"].split() if match else []
        words = list(takewhile(lambda word: word.lower() not in stop_words("en"), spoken))
        # Drop the verb in "does the keeper sleep", "was the tower built"; not in "is the keeper", "does the keeper do".
        ends_with_verb = match is not None and not match["be"] and spoken[len(words) : len(words) + 1] != ["do"]
        is_past = words[-1:] and (words[-1].endswith("ed") or words[-1].lower() in word_list("verb_forms"))
        words = words[:-1] if ends_with_verb or is_past else words
        return f"the {' '.join(words)}" if words else ""
    text = _COURTESY_ZH.sub("", first, count=1)
    if match := _SUBJECT_ZH.match(text):
        return match[1]
    (words,) = tag_words([text])
    subject = "".join(word.text for word in takewhile(lambda word: word.tag in _NOMINAL, words))
    return "" if _INTERROGATIVE_ZH.search(subject) else subject


def _has_subject(part: str) -> bool:
    """Return whether a Chinese part has a noun before its question word ("敲几声" has none) or after its verb.

    The latter applies if it begins with the question word: "哪个命令签署文件" is complete, "哪个部门负责" lacks its
    object.
    """
    asks = _INTERROGATIVE_ZH.search(part)
    (words,) = tag_words([part[: asks.start()] if asks and asks.start() else part])
    named = dropwhile(lambda word: word.tag != "v", words) if asks and not asks.start() else words
    return any(word.tag in _NOMINAL for word in named)


# The aspects of an account of a whole subject: "Describe the reef, covering its age and the fish that live there".
#
# Each aspect is searched for separately, since pages about one seldom cover the others. The subject, which comes first
# in the question, is prepended to each.

_ASPECT_BREAK = late_pattern(
    rf"\s*,?\s+{_SPEAKING_OF}\s+|(?:\s*[,;:]|\s+and|\s+as well as)+\s+"
    r"(?=(?:an?|the|its|their|his|her|how|wh(?:at|en|ere|ich|o|y))\b)|\s*(?:[，、；：]|以及|包括|及其)\s*",
    re.IGNORECASE,
)
# The opening of a question that asks for an account, or names the point of view.
_ACCOUNT_OPENING = late_pattern(
    r"^(?:please )?(?:(?:from|according to) (?:an? |the )?[\w ]{2,40}, )?(?:what|which) (?:is|are|was|were) "
    r"(?:the |some of the )?|^(?:please )?[a-z]+ (?:an? (?:\w+ )?(?:overview|summary|account) of )?(?=the |an? |how )"
    r"|^(?:请|请你|帮我|给我)*(?:总结|概述|概括|归纳|综述|描述|介绍|说明)(?:一下|下)?",
    re.IGNORECASE,
)
_MOST_ASPECTS = 5


def find_aspects(question: str) -> tuple[str, ...]:
    """Return the aspects of an account, each with its subject: two to five texts, or none for a single aspect."""
    text = _ACCOUNT_OPENING.sub("", " ".join(question[:LONGEST_READ].split()), count=1).rstrip("?.!？。！ ")
    aspects = dict.fromkeys(piece for piece in _ASPECT_BREAK.split(text) if terms(piece))
    if len(aspects) < 2:
        return ()
    subject, *others = aspects
    return (subject, *(f"{subject}: {other}" for other in others))[:_MOST_ASPECTS]


_MAX_WORDS = 64
# The part of a question that the rules read; later text in a question of several pages is material.
LONGEST_READ = 4_000


def understand_by_rules(question: str) -> Understanding:
    """Understand a question by rules; takes about a millisecond, so run it in a thread.

    Rules add no words of their own: `expansions` are the question's content words.
    """
    text = question[:LONGEST_READ]
    (sentences,) = read_texts([text])
    entities = _names(sentences)
    phrases = _unique(phrase.text.casefold() for sentence in sentences for phrase in sentence.phrases)
    kind = classify(text, entities)
    sides = find_sides(text, entities) if kind is QuestionKind.COMPARE else ()
    # Sides that are questions become parts; otherwise a comparison is searched by its sides and not split into parts.
    parts = sides if sides and all(_INTERROGATIVE.match(side) for side in sides) else ()
    sides = () if parts else sides
    parts = parts or (() if sides else find_parts(text, entities))
    return Understanding(kind, entities, phrases, question_language(text), parts, sides)


def sides_by_rules(question: str) -> tuple[str, ...]:
    """Return the sides that a question compares, as `understand_by_rules` does; takes about as long."""
    text = question[:LONGEST_READ]
    (sentences,) = read_texts([text])
    entities = _names(sentences)
    return find_sides(text, entities) if classify(text, entities) is QuestionKind.COMPARE else ()


def classify(question: str, entities: Sequence[str]) -> QuestionKind:
    """Return the kind of a question; weak cues count only if it has no names."""
    text = " ".join(question.casefold().split())
    for cue in CUES:
        if cue.pattern.search(text) and not (cue.is_weak and entities):
            return cue.kind
    account = asks(question_language(question), "account")
    return QuestionKind.GLOBAL if account and account.search(text) else QuestionKind.FACT


def _names(sentences: Iterable[SentenceReading]) -> tuple[str, ...]:
    return _unique(name.text for sentence in sentences for name in sentence.names)


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words if word.strip()))[:_MAX_WORDS]
