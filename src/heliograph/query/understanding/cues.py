"""The words by which the kind of a question is known, in English and Chinese.

`CUES` is read from the top, and the first cue that is found decides, so the order matters: what is compared may be a
cause, but what causes is seldom compared. A cue marked weak counts only in a question that names nothing, since "the
main products" are a theme of a collection but a fact about a company. A question without any cue asks for a fact.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from heliograph.query.understanding.models import QuestionKind


@dataclass(frozen=True, slots=True)
class Cue:
    """A kind and the pattern that tells it, searched in the question in lower case.

    Attributes:
        kind: What is asked for.
        pattern: What tells it.
        is_weak: Whether it counts only where nothing is named.
    """

    kind: QuestionKind
    pattern: re.Pattern[str]
    is_weak: bool = False


def _cue(kind: QuestionKind, *alternatives: str, weak: bool = False) -> Cue:
    return Cue(kind, re.compile("|".join(alternatives)), weak)


_ASKS = r"(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would)"
# Words of degree; "other than" and "rather than" compare nothing.
_DEGREE = r"(?:(?!other|rather|ever|never|over|under|after)[a-z]+er|more|less|better|worse|more [a-z]+|less [a-z]+)"
_FIRST = r"(?:first|last|earlier|earliest|later|latest|older|oldest|younger|youngest|longer|bigger|more|most)"
# Plural nouns that speak of what many texts have in common.
_SHARED = (
    r"(?:themes?|topics?|points|ideas|findings|takeaways|insights|messages|lessons|challenges|problems|issues|concerns"
    r"|questions|trends|patterns|arguments|opinions|views|perspectives|conclusions|subjects)"
)

# Who speaks in many texts, what they do, and what comes of it.
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

CUES = (
    # Why comes before all, whatever it asks it of.
    _cue(QuestionKind.REASON, r"^(?:and |but |so )?why\b", r"^how come\b", r"\bexplain why\b", r"^为什么|^为何"),
    _cue(
        QuestionKind.GLOBAL,
        r"\bsummar(?:i[sz]e|y|ies)\b|\boverview\b|\bgist\b|\btake-?aways?\b",
        r"^(?:overall|in general|generally|on the whole)\b",
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
    # Chains: an attribute of something that is itself only described.
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
