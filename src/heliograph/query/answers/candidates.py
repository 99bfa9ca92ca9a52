"""The features of a question and of each sentence that may answer it.

Where the question asks, what kind of thing it asks for, and what a sentence holds of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from heliograph.query.answers.quotables import Form, Quotable
from heliograph.text.analysis import is_chinese, terms_in, word_list
from heliograph.text.asking import ASKING, asks
from heliograph.text.name_spans import (
    DEMONYMS,
    EVENT_WORDS,
    KEPT_TITLES,
    LOCATION_WORDS,
    ORGANIZATION_WORDS,
    STRIPPED_TITLES,
    WORK_WORDS,
)
from heliograph.text.patterns import late_pattern
from heliograph.text.sentences import NameSpan

# The question word of a question, and how near to it the other words stand.
#
# Words near the question word name the requested thing ("who is the mother of", "的官方语言是什么"); words far from it
# say of what ("the director of the film X"). Only English and Chinese question words are known; in a question without
# one all words count as equally near.

_COURTESY = late_pattern(
    r"^(?:你好|您好|请问|请教|请|谁能|谁可以|有谁|有人|谁|你们|你|您|大家|能不能|能否|可不可以|可以|麻烦|帮忙|告诉|说说|讲讲|知道|了解|晓得"
    r"|一下|我想|想|问|吗|我|，|,|\s){0,6}(?:告诉我|知道|请问|了解|晓得|请教|说说|想问|问一下)[，,\s]*(?=.{4})"
    r"|^(?:please\s|can|could|would|will|do)\s*(?:you\s+)?(?:please\s+)?(?:tell me|know|say|explain)\b[,:\s]*(?=.{8})",
    re.IGNORECASE,
)
_CLOSING = late_pattern(r"[吗呢呀啊吧嘛\s？?。.!！]|(?<![什怎那这多])么")
_ENGLISH = late_pattern(r"\b(?:who|whose|whom|when|where|what|which|how|why)\b", re.IGNORECASE)
# A question word behind these still opens the question: "in which city", "and to what extent".
_OPENING = late_pattern(
    r"\W*(?:(?:in|on|at|of|for|from|by|to|with|during|under|after|before|and|so|but|about|as|near|since|until)\s+)*",
    re.IGNORECASE,
)
# Within a sentence these are mostly relative pronouns.
_RELATIVE = frozenset({"who", "where", "when", "whose", "why"})
_CHINESE_QUESTION = late_pattern(
    r"什么|谁|哪[里儿个些位年天一部家种]?|何[时处地人]?|多少|几|怎[么样]|多[大长远高久重]|如何"
)
# Weight of each further word, or pair of Chinese characters, as a share of the one before.
_FADING = 0.7
_FADING_PAIR = 0.84


@dataclass(frozen=True, slots=True)
class Focus:
    """A question and its question word.

    Attributes:
        text: The question without what is only courtesy around it.
        start: First character of the question word in `text`; the end of the text where a Chinese question has none.
        end: One past the last; equal to `start` where there is none.
    """

    text: str
    start: int
    end: int
    is_chinese: bool


def without_question_words(question: str) -> str:
    """Return a Chinese question without its question words, whose character pairs say nothing about the answer."""
    return _CHINESE_QUESTION.sub(" ", question) if is_chinese(question) else question


def find_focus(question: str) -> Focus:
    """Find the question word: in Chinese the last one, in English the one that opens the question.

    If none opens it, it is the last one that is no relative pronoun, or else the last one.
    """
    text = _COURTESY.sub("", question.strip())
    end = len(text)
    while end and _CLOSING.match(text, end - 1):
        end -= 1
    text = text[:end]
    if is_chinese(text):
        found = list(_CHINESE_QUESTION.finditer(text))
        start, end = found[-1].span() if found else (len(text), len(text))
        return Focus(text, start, end, True)
    found = list(_ENGLISH.finditer(text))
    if not found:
        return Focus(text, 0, 0, False)
    if _OPENING.fullmatch(text, 0, found[0].start()):
        return Focus(text, *found[0].span(), False)
    asking = [match for match in found if match[0].lower() not in _RELATIVE]
    return Focus(text, *(asking or found)[-1].span(), False)


def nearness(focus: Focus, language: str) -> Mapping[str, float]:
    """Return how near each term of a question stands to its question word, from 1 down to 0."""
    if focus.start == focus.end and not focus.is_chinese:
        return dict.fromkeys(terms_in(focus.text, language), 1.0)
    fading = _FADING_PAIR if focus.is_chinese else _FADING
    near: dict[str, float] = {}
    for side in (terms_in(focus.text[focus.end :], language), terms_in(focus.text[: focus.start], language)[::-1]):
        for distance, term in enumerate(side):
            near[term] = max(near.get(term, 0.0), fading**distance)
    return near


# What kind of thing a question asks for, and whether a sentence holds one.
#
# Read off the question word and the noun that it asks for in English or Chinese ("which city", "what is the
# population", "哪个省", "面积是多少"). A sentence that holds a name of the right kind which the question does not say
# itself is the likelier to hold the answer.


class AnswerType(StrEnum):
    """The type of answer that a question expects; all but dates, numbers, code and the rest are types of names."""

    PERSON = "person"
    DATE = "date"
    NUMBER = "number"
    LOCATION = "location"
    ORGANIZATION = "organization"
    WORK = "content"
    EVENT = "event"
    CODE = "code"
    OTHER = "other"


_UNITS = "个名位人次条种类部间座家所岁"
_QUESTION_WORDS = {
    "who": AnswerType.PERSON,
    "whom": AnswerType.PERSON,
    "when": AnswerType.DATE,
    "where": AnswerType.LOCATION,
}
_MEASURED = late_pattern(r"\s+(?:many|much|long|old|far|tall|high|large|big|often|fast|deep|heavy)\b", re.IGNORECASE)
# The first that holds the noun asked for decides.
_NOUNS = (
    (AnswerType.PERSON, word_list("asked_persons") | STRIPPED_TITLES | KEPT_TITLES),
    (AnswerType.DATE, word_list("asked_dates")),
    (AnswerType.NUMBER, word_list("asked_numbers")),
    (AnswerType.LOCATION, word_list("asked_places") | LOCATION_WORDS),
    (AnswerType.ORGANIZATION, ORGANIZATION_WORDS),
    (AnswerType.WORK, WORK_WORDS),
    (AnswerType.EVENT, EVENT_WORDS),
    (AnswerType.CODE, word_list("asked_code")),
)
_WORD = late_pattern(r"[A-Za-z][\w'’-]*|[,;:?]")
# Between the question word and the noun; behind the noun.
_BEFORE_NOUN = word_list("before_asked_nouns")
_AFTER_NOUN = word_list("after_asked_nouns")
_LONGEST_RUN = 4

_WRITTEN = (
    "(?:命令|子命令|指令|选项|参数|函数|文件|目录|路径|软件包|包|快捷键|键|组合键|工具|脚本|变量"
    "|格式代码|设置项|配置项|字段|程序|程式|档案|设定档|资料夹|套件)"
)
_BODIES = "(?:公司|机构|大学|学校|单位|组织|部门|医院|球队|企业|院校)"
_IS = r"(?:[是为在叫有达]|名字|名称)*"
_CHINESE = (
    (AnswerType.PERSON, late_pattern(r"谁|哪位|什么人|哪[个些](?:人|名人|人物)")),
    (
        AnswerType.DATE,
        late_pattern(rf"何时|什么时[候间]|哪一?[年天]|几[月点号]|(?:时间|日期|年份|生日){_IS}(?:什么|哪|$)"),
    ),
    (
        AnswerType.NUMBER,
        late_pattern(rf"多少|几[{_UNITS}]|多[大长远高久重]|第几|(?:面积|人口|数量|高度|长度){_IS}(?:什么|$)"),
    ),
    (
        AnswerType.LOCATION,
        late_pattern(
            r"哪[里儿]|何[处地]|什么地[方区]|在哪|(?:什么|哪一?[个些座]?)(?:国家|国|城市|省|市|县|地方|地区|州|洲|镇|村|区)"
            rf"|(?:地点|地区|地址|国籍|首都|位置|籍贯|出生地|发源地){_IS}(?:什么|哪|$)"
        ),
    ),
    (
        AnswerType.ORGANIZATION,
        late_pattern(rf"(?:什么|哪一?[个所家些支]?){_BODIES}|{_BODIES}{_IS}(?:什么|哪|$)"),
    ),
    (
        AnswerType.CODE,
        late_pattern(rf"(?:什么|哪一?[个些条种]?){_WRITTEN}|{_WRITTEN}{_IS}(?:什么|哪|$)|(?:写|存|保存|放)在哪"),
    ),
    (
        AnswerType.WORK,
        late_pattern(
            r"(?:什么|哪一?[部首张本个]?)(?:电影|电视剧|歌|专辑|书|小说|作品|游戏)|(?:歌曲|专辑|作品)(?:是|叫)什么"
        ),
    ),
)
# In the other languages, by the patterns of `text/asking.py`.
_IN_OTHERS = (
    AnswerType.PERSON,
    AnswerType.DATE,
    AnswerType.NUMBER,
    AnswerType.LOCATION,
    AnswerType.CODE,
)
# Text typed into a machine: marked as code, an option, a path, a call, a name with underscores or inner capitals.
_CODE = late_pattern(
    r"`([^`\n]+)`|[\"“]([^\s\"“”]{2,24})[\"”]|\b([A-Z]{3,}(?: [A-Z]{2,})+)\b"
    r"|(?<![\w-])(--?[A-Za-z][\w-]*)|(?<![\w/.])(~?/[\w.+-]+(?:/[\w.+-]*)*)|([A-Za-z_][\w.]*\(\))"
    r"|\b([A-Za-z]+_\w+|[a-z]+[A-Z]\w+|(?:[A-Z][a-z]+){2,})\b"
    r"|(?<!\w)((?:Shift|Ctrl|Alt|Command|Option|Cmd|Strg)(?: ?\+ ?\w+| key)|F\d{1,2})(?!\w)"
)
_DATE = late_pattern(
    r"\b(?:1\d{3}|20\d\d)\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d|\b\d{1,2}:\d\d"
    r"|\b\d{1,2} ?[ap]m\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day|\b(?:tomorrow|tonight|evening|morning|noon)\b"
    r"|[0-9一二三四五六七八九十〇○]+(?:年|月|日|世纪|点)|周[一二三四五六日末]|星期|\d(?:년|월|일)",
    re.IGNORECASE,
)
# From two to ten, where no article is written so, in other languages than English, Chinese and German.
_NUMBERS_IN_OTHERS = (
    r"\b(?:deux|trois|quatre|cinq|sept|huit|neuf|dix|dos|tres|cuatro|cinco|siete|ocho|nueve|diez|due|tre|quattro|cinque"
    r"|sette|otto|nove|dieci|dois|duas|três|quatro|sete|oito|dez|twee|drie|vier|vijf|zeven|acht|negen|tien|två|fyra|fem"
    r"|sju|åtta|nio|tio|d[wv]a|dwie|dvě|trzy|trzech|tři|cztery|czterech|čtyři|pięć|pięciu|pět|sześć|šest|siedem|sedm|osiem"
    r"|osm|dziewięć|devět|dziesięć|deset|iki|üç|dört|beş|altı|yedi|sekiz|dokuz|дв[ае]|двух|тр[иёе]х?|четыре|пять|пяти"
    r"|шесть|семь|восемь|девять|десять)\b|(?:두|세|네|다섯|여섯|일곱|여덟|아홉|열) ?(?:개|자|글자|번|가지|명|줄|문자)"
    r"|[二三四五六七八九十]つ"
)
# Not the section of a manual page, nor what belongs to another measure: "git-gc(1)", "an 8192-byte page".
_NUMBER = late_pattern(
    r"(?<!\w\()\d[\d.,]*+(?!-[a-z])|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|hundred|thousand"
    r"|million|billion|dozen|half|once|twice|daily|weekly|monthly)\b"
    rf"|[一二两三四五六七八九十百千万亿]+[{_UNITS}米元年天月]|{_NUMBERS_IN_OTHERS}",
    re.IGNORECASE,
)
# Lengths of time, behind a number, and what tells a default, in other languages than English, Chinese and German.
_TIMES_IN_OTHERS = (
    r"(?i:segundos?|secondes?|second[oi]|seconden|sekund\w*|saniye|секунд\w*|秒|초|minut\w*|dakika|минут\w*|分|분"
    r"|horas?|heures?|or[ae]\b|uur|uren|timmar|timme|godzin\w*|hodin\w*|saat|час\w*|時間|시간|días?|jours?|giorn[oi]"
    r"|dias?|dag(?:en|ar)?|dni|dn[íůy]|gün|дн\w+|день|日|일|semanas?|semaines?|settiman[ae]|weken|veck\w+|tygodni\w*"
    r"|týdn\w+|hafta|недел\w+|週|주|mes(?:es)?\b|mois|mes[ei]\b|meses|maand\w*|månad\w*|miesi\w+|měsíc\w*|ay\b|месяц\w*"
    r"|か月|개월|años?|ans?\b|anni|anos?\b|jaar|år|lat\b|let\b|yıl|лет|год\w*|年|년)"
)
_DEFAULT_IN_OTHERS = "|".join(asking.default for asking in ASKING.values() if asking.default)
# Forms of answers and how each looks: a length of time, a key, an option of a command line. Each
# has the field of `Asking` by which it is known in other languages than English, Chinese and German; empty for none.
_COUNT = (
    r"(?:(?<![A-Za-z\d.])\d[\d.,]*|\b(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty"
    r"|forty|sixty|hundred|thousand|million|half an?|ein|eine|einer|zwei|drei|vier|fünf|zehn)\b"
    r"|[一二两三四五六七八九十百千万半]+)"
)
_FORMS = tuple(
    (form, late_pattern(asked, re.IGNORECASE), late_pattern(answer))
    for form, asked, answer in (
        (
            "duration",
            r"\bhow (?:long|often|frequently)\b|\bhow many (?:milli)?(?:second|minute|hour|day|week|month|year)s\b"
            r"|\btime-?out\b|\b(?:what|which) (?:intervals?|delay|period)\b|\bafter (?:what|which) time\b"
            r"|多久|多长时间|超时时间|(?:多少|几)(?:毫秒|秒|分钟|小时|天|周|个月|年)|\bwie (?:lange|oft|häufig)\b"
            r"|\bin welche[nm] (?:abst[aä]nd|intervall|rhythmus)\w*"
            r"|\bwie viele (?:sekunden|minuten|stunden|tage|wochen|monate|jahre)",
            rf"(?i:{_COUNT}[ -]?(?:milliseconds?|ms|s|seconds?|secs?|minutes?|mins?|min|hours?|hrs?|h|days?|weeks?"
            r"|months?|years?|sekunden?|minuten?|stunden?|tage?n?|wochen?|monate?n?|jahre?n?)\b"
            r"|\b(?:daily|hourly|weekly|monthly|yearly|every (?:day|hour|minute|week|month|year))\b"
            r"|\b(?:stündlich|täglich|wöchentlich|monatlich|jährlich)\b"
            r"|\bjede[nrs]? (?:minute|stunde|tag|woche|monat|jahr)\b)"
            rf"|(?:{_COUNT} ?|每)(?:毫秒|秒|分钟|小时|天|周|个月|月|年)|\d ?(?:{_TIMES_IN_OTHERS})"
            r"|(?i:\b(?:seconds|minutes|hours|days)\b[^.;]{0,60}?(?:\bdefaults?\b|\bis\b|[:=])\D{0,12}?\d)",
        ),
        (
            "size",
            r"\bhow (?:large|big)\b|\bhow many (?:kilo|mega|giga)?(?:byte|bit)s\b|\bstorage size\b|多大|多少(?:字节|兆)"
            r"|\bwie groß\b|\bwie viele bytes\b",
            rf"(?i:{_COUNT}[ -]?(?:kilo|mega|giga|tera)?(?:bytes?|bits?)\b|{_COUNT} ?[KMGT]i?B\b)|\d ?(?:字节|兆)",
        ),
        (
            "key",
            r"\b(?:which|what)\b[^?,;]{0,24}\b(?:keys?|shortcut)\b|(?:哪个|什么|哪些)?(?:快捷|组合)?键"
            r"|\bwelche[rsnm]? taste",
            r"(?<!\w)(?:Shift|Ctrl|Alt|Command|Cmd|Option key|Strg|Umschalt|Tab|Esc|Enter|Return|Delete|Del|Backspace"
            r"|Maj|Suppr|Entrée|Échap|Retour|Mayús|Intro|Supr|Maiusc|Invio|Canc|Skift|F\d{1,2})(?![a-z])"
            r"|\b[A-Z]\b(?=[`\"']? ?(?:key|keyboard|键|-?Taste))|\bshortcut:? [`\"']?(?:is )?[A-Z]\b"
            r"|(?:空格|回车|退格|退出|删除|制表|加号|减号|星号|斜杠|连字符|方向|箭头|[上下左右加减])键",
        ),
        (
            "option",
            r"\b(?:which|what)\b[^?,;]{0,32}\b(?:options?|flags?|switch|parameters?)\b|(?:哪个|什么|哪些)(?:选项|参数)"
            r"|\bwelche[rsnm]? (?:option|parameter|schalter)",
            r"(?<![\w-])--?[A-Za-z][\w-]*",
        ),
        (
            "file",
            r"\bwhere\b.*\b(?:stored?|kept|keeps?|saved?|located|lies?|written|writes?|placed|found)\b"
            r"|\b(?:which|what)\b[^?,;]{0,32}\b(?:files?|director(?:y|ies)|folder|path)\b|(?:文件|档案?|资料夹)在哪|(?:写|存|保存|放)在"
            r"|(?:哪个|什么|哪些)(?:配置|设定)?(?:文件|目录|路径|档案?|资料夹)|文件是哪"
            r"|\bwelche[rsnm]? (?:\w*datei|\w*verzeichnis|\w*ordner)"
            r"|\bwo (?:liegt|liegen|steht|stehen|befinde\w+|speicher\w+)\b",
            r"(?<![\w<:/])~?/[A-Za-z][\w.+-]*(?:/[\w.+*-]*)*"
            r"|\b[\w-]+\.(?:conf|cfg|ini|json|ya?ml|toml|txt|log|xml|db|list)\b|[\"“][^\s\"“”]{2,40}[\"”]",
        ),
        (
            "",
            r"\bwhere\b.*\b(?:appears?|shown|displayed)\b|(?:显示|出现)在.*(?:哪|什么)|\bwo\b.*\b(?:angezeigt|erscheint)\b",
            r"(?i:\b(?:in|on|at|under) the (?:[\w-]+ ){0,3}?(?:bar|menu|window|dialog|panel|pane|page|list|box|tab"
            r"|toolbox|corner|top|bottom|left|right|margin|screen)\b|\b(?:im|in der|am|auf dem) (?:[\w-]+ )?\w*"
            r"(?:leiste|menü|fenster|dialog|rand|liste|bildschirm)\b)|在[^，。；]{0,12}(?:栏|菜单|窗口|对话框|面板|列表|角|侧|部)",
        ),
        # In English prose too many words have a hyphen.
        (
            "package",
            r"(?:哪个|什么)(?:(?:软件)?包|套件)|(?:包|套件)(?:是|叫)什么|\bwelche[sm]? \w*paket",
            r"(?<![\w-])[a-z][a-z\d.+]*(?:-[a-z\d.+]+)+(?![\w-])",
        ),
        (
            "",
            r"\b(?:which|what) units?\b|\bwelcher (?:maß)?einheit|什么单位|单位是",
            r"(?i:\b[KMGT]i?B(?:/s)?\b|\b(?:kilo|mega|giga)?(?:bytes?|bits?)\b|\b(?:milli|micro|nano)?seconds?\b"
            r"|\b(?:minutes?|hours?|days?|percent|pixels?|points?|blocks?|pages?|sekunden?|minuten?|stunden?|tage?n?)\b)"
            r"|毫秒|秒|分钟|小时|字节|像素|百分",
        ),
        ("", r"\bports?\b|端口|连接埠|通讯埠", r"(?<![\d.,])\d{2,5}(?![\d.,]*\d)"),
        (
            "",
            r"\b(?:exit|status|return) (?:code|status|value)\b|退出(?:码|状态)",
            r"(?<![A-Za-z\d.(-])\d{1,3}(?![\w)-]|\.\d)",
        ),
        (
            "default",
            # A default, in whatever words the question asks for it.
            r"\bdefaults?\b|\bout of the box\b|\bunless (?:\w+ )?(?:told|set|configured|changed|overridden|specified)"
            r"|\b(?:nothing|none|no \w+) (?:is|was|has been) (?:set|given|configured|specified)"
            r"|\b(?:if|when) (?:i|you|one|we|it|nobody) (?:do(?:es)?(?: not|n['’]t)|never) (?:set|give|specif|config)"
            r"|\bif (?:i|you|one|we) (?:set|give|specify|configure) (?:\w+ ){0,3}?(?:no|nothing)\b"
            r"|\bwithout (?:setting|giving|specifying|configuring)\b"
            r"|默认|缺省|预设|(?:没有?|未|不)(?:作?任何|另行|明确)?(?:设置|设定|指定|配置|给出|填写)"
            r"|\bstandardmäßig|\bvoreingestellt|\bvorgabe|\bstandard(?:wert)?\b"
            r"|\b(?:nichts|keine?[nr]?) (?:\w+ )?(?:angegeben|angebe|angibt|(?:ein|um)(?:gestellt|stelle)|gesetzt|setze"
            r"|konfigurier\w+|(?:ge|ver)ändert|ändere)\b|\bohne angabe|\bvon haus aus\b",
            r"(?i:\bdefaults?\b[^.;:|]{0,40}?(?:\bis\b|\bto\b|[:=])[:\s]*\S+|(?:默认|缺省|预设)[^。；]{0,12}?[是为:：]\s*\S+"
            r"|^by default,? \w|\b(?:is|are|to|of) \S+(?: \w+)? by default\b|\w\S* (?:is|are) the default\b"
            r"|\b(?:standard(?:wert)?|vorgabe|voreinstellung|voreingestellte[rsn]?)\b[^.;:|]{0,30}?(?:\bist\b|:)\s*\S+"
            rf"|\b(?:standardmäßig|voreingestellt)\b|{_DEFAULT_IN_OTHERS})",
        ),
    )
)
# Weight of a sentence that holds every name and number of the question, all that two scripts can share.
_OTHER_SCRIPT = 0.7
# Fit, as a share of a full one, of the right kind without the form, and of one whose form is in another script.
_KIND_ALONE = 0.4
_KIND_IN_OTHER_SCRIPT = 0.8
# And what is of one of several forms.
_PARTLY = 0.7
# An option as it is typed, or a placeholder ("%h"), and how much it counts: said by the sentence as its term, told
# before it, or anywhere in it.
_MARKED = late_pattern(r"`[^`\n]*`")
_OPTION = late_pattern(r"(?<![\w-])(?:--?[A-Za-z][\w-]*|%[A-Za-z]\b)")
_LATIN_TERM = late_pattern(r"[A-Za-z][\w.+-]+\w", re.ASCII)
_IDENTIFIER = late_pattern(r"[_.]|[a-z][A-Z]|[A-Z]\d")
# A sign that a question asks of, bare or marked.
_SIGN = late_pattern(r"(?:(?<=\s)|(?<=[`\"'“]))[!*?%$#@&|~^+/\\:;=<>]{1,3}(?=\s\w|[`\"'”])")
_MARKED_SIGN = late_pattern(r"[`\"'“]([^\w\s`\"'“”]{1,3})[`\"'”]")
_LONGEST_TERM = 80
_AS_TERM, _BEFORE, _ANYWHERE = 1.0, 0.7, 0.4
# So many times as much, where nothing but the option can be meant: "What does -E do?"
_ABOUT_OPTION = 2.0
_PEOPLE = late_pattern(rf"\b(?:{'|'.join(sorted(DEMONYMS))})\b", re.IGNORECASE)
_UNTYPED = "unknown"
_MAYBE = 0.6
_PLACE_OF_PEOPLE = 0.8
_ANY_NAME = 0.5


def expected_type(focus: Focus, language: str = "") -> AnswerType:
    """Return the answer type that the question word and its noun ask for; `language` is from `question_language`."""
    if focus.is_chinese:
        return _type_of_last(focus, _CHINESE)
    if focus.start == focus.end:
        # A question that is not known for one in another language may be a German one.
        known = language if language in ASKING else "de"
        cues = ((kind, asks(known, kind.value)) for kind in _IN_OTHERS)
        return _type_of_last(focus, ((kind, cue) for kind, cue in cues if cue is not None))
    word = focus.text[focus.start : focus.end].lower()
    if word in _QUESTION_WORDS:
        return _QUESTION_WORDS[word]
    if word == "how":
        return AnswerType.NUMBER if _MEASURED.match(focus.text, focus.end) else AnswerType.OTHER
    # The words that the question asks for, the noun last: of "is the name of the first city in" `city`.
    run: list[str] = []
    for said in map(str.lower, _WORD.findall(focus.text[focus.end :])) if word in {"what", "which", "whose"} else ():
        if said in _BEFORE_NOUN and not run:
            continue
        if said in _AFTER_NOUN or not said[0].isalpha() or len(run) == _LONGEST_RUN:
            break
        run.append(said)
    for noun in reversed(run):
        for kind, nouns in _NOUNS:
            if noun in nouns or noun.removesuffix("s") in nouns:
                return kind
    return AnswerType.OTHER


def reads_chinese(text: str) -> bool:
    """Return whether a text is Chinese; ignores code in it, whose script tells no language."""
    return is_chinese(_MARKED.sub("", text)) or is_chinese(text)


def named_options(question: str) -> frozenset[str]:
    """Return the options of a command line, and the placeholders, that a question names."""
    return frozenset(_OPTION.findall(question))


def named_identifiers(question: str) -> frozenset[str]:
    """Return the code identifiers in a question, in Chinese all words in Latin script; and signs.

    A sign is a separate run of punctuation, such as `!` or `**`.
    """
    is_written = re.compile("") if is_chinese(question) else _IDENTIFIER
    names = (name.casefold() for name in _LATIN_TERM.findall(question) if is_written.search(name))
    return frozenset(names) | frozenset(_SIGN.findall(question))


def _own_term(sentence: Quotable) -> tuple[str, str, str]:
    """Return the term that a row or an item begins with, its colon, and what stands behind it; empty without a term."""
    first = sentence.shown.partition(";")[0] if sentence.form is Form.ROW else sentence.shown
    parts = first.partition(": ")
    begins_with_term = sentence.form is Form.ROW or (first[0] in "`-" and (parts[1] or first[:2] in ("`-", "--")))
    return parts if begins_with_term else ("", "", "")


def _bare(term: str) -> str:
    """Return a term as a question would name it: without the marks of code and of its end, and its default."""
    return term.partition(" (")[0].strip("`:： ").casefold()


def expected_forms(question: str, language: str = "") -> tuple[re.Pattern[str], ...]:
    """Return patterns of the answer if a question says more than its type ("how many days", "which key").

    There may be several: the answer to "how many seconds by default" is a duration and a default.
    """
    found: list[re.Pattern[str]] = []
    for form, asked, answer in _FORMS:
        in_other = asks(language, form) if form else None
        if asked.search(question) or (in_other and in_other.search(question)):
            found.append(answer)
    return tuple(found)


def _type_of_last(focus: Focus, cues: Iterable[tuple[AnswerType, re.Pattern[str]]]) -> AnswerType:
    """Return the type of the last cue; of cues that end together, the one that begins first."""
    found = [(match.end(), -match.start(), kind) for kind, cue in cues for match in cue.finditer(focus.text)]
    return max(found)[2] if found else AnswerType.OTHER


def type_match(expected: AnswerType, sentence: str, new_names: Sequence[NameSpan], question: str = "") -> float:
    """Return how well a sentence fits the expected answer type, from 0 to 1.

    Args:
        expected: The expected type.
        sentence: The sentence with its lead.
        new_names: Names in it that the question does not contain.
        question: The question in lower case; numbers and code in it do not count as an answer.
    """
    types = {name.type for name in new_names}
    match expected:
        case AnswerType.DATE:
            return float(_holds_new(_DATE, sentence, question))
        case AnswerType.NUMBER:
            return float(_holds_new(_NUMBER, sentence, question))
        case AnswerType.CODE:
            return 1.0 if _holds_new(_CODE, sentence, question) else _ANY_NAME * bool(types)
        case AnswerType.OTHER:
            return _ANY_NAME * bool(types)
        case AnswerType.LOCATION if _PEOPLE.search(sentence):
            return 1.0 if expected.value in types else _PLACE_OF_PEOPLE
        case _:
            return 1.0 if expected.value in types else _MAYBE * (_UNTYPED in types)


def _holds_new(pattern: re.Pattern[str], sentence: str, question: str) -> bool:
    found = (next(filter(None, match.groups()), match[0]) for match in pattern.finditer(sentence))
    # A single letter, such as a key, stands in other words too.
    return any(not (text in question if len(text) > 1 else says(question, text)) for text in map(str.casefold, found))


_IN_BRACKETS = late_pattern(r"\s*[(（][^()（）]*[)）]$")
_ARTICLE = late_pattern(r"^(?:the|an?) ")
# A shorter title, such as "Who", may be any word or part of a number.
_LEAST_TITLE = 4


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question against a context.

    Attributes:
        weights: Weight of each of its terms that the context holds.
        total: Their sum, above 0.
        near: Of each term, how near it stands to the question word, from 0 to 1.
        sides: What it lets choose between, in lower case; empty unless it compares.
        forms: What an answer looks like, where the question says more than the kind.
        options: Options of a command line that it names, as they are typed.
        identifiers: Other names in it that are written to a machine; in Chinese whatever is in Latin script.
    """

    folded: str
    weights: Mapping[str, float]
    total: float
    near: Mapping[str, float]
    language: str
    expected: AnswerType
    sides: tuple[str, ...] = ()
    forms: tuple[re.Pattern[str], ...] = ()
    options: frozenset[str] = frozenset()
    identifiers: frozenset[str] = frozenset()

    @property
    def is_chinese(self) -> bool:
        """Whether it is Chinese."""
        return self.language == "zh"

    def explains(self, sentence: Quotable) -> float:
        """Return how much a sentence explains a thing that the question names: 0 to 1, up to 2 for an option.

        A row or item that begins with a term, or has it as lead, explains this term; an option may occur anywhere.
        """
        term, _, behind = _own_term(sentence)
        if self.options:
            for text, worth in (
                (term, _AS_TERM),
                (sentence.lead if sentence.lead.startswith(("`-", "-", "`%", "%")) else "", _BEFORE),
                (sentence.told, _ANYWHERE),
            ):
                if not self.options.isdisjoint(_OPTION.findall(text)):
                    is_about = worth > _ANYWHERE and self.expected is not AnswerType.CODE
                    return worth * (_ABOUT_OPTION if is_about else 1.0)
        if term and not self.identifiers.isdisjoint((_bare(term), _bare(behind))):
            return _AS_TERM
        if not self.identifiers.isdisjoint(_MARKED_SIGN.findall(sentence.shown)):
            return _BEFORE
        # A message ("LiHua: ...") does not explain its author.
        is_said = sentence.lead.endswith((":", "："))
        return _BEFORE if not is_said and _bare(sentence.lead) in self.identifiers else 0.0

    def defines(self, sentence: Quotable) -> bool:
        """Return whether a sentence explains an option, a command or the like, where the question asks for one."""
        forms = self.forms or (_CODE,)
        terms = (_own_term(sentence)[0], sentence.lead if len(sentence.lead) <= _LONGEST_TERM else "")
        return self.expected is AnswerType.CODE and any(
            _holds_new(form, term, self.folded) for form in forms for term in terms
        )

    def fit(self, sentence: str, new_names: Sequence[NameSpan]) -> float:
        """Return how well a sentence fits the type of the question, from 0 to 1; arguments as of `type_match`."""
        fit = type_match(self.expected, sentence, new_names, self.folded)
        held = sum(_holds_new(form, sentence, self.folded) for form in self.forms)
        is_foreign = self.is_chinese and not reads_chinese(sentence)
        if held:
            # In another script a Chinese noun is matched by the kind alone.
            return 1.0 if held == len(self.forms) or (is_foreign and fit >= 1.0) else _PARTLY
        return fit * (_KIND_IN_OTHER_SCRIPT if is_foreign else _KIND_ALONE) if self.forms else fit

    def names(self, title: str) -> bool:
        """Return whether the question says a plain title."""
        return (len(title) >= _LEAST_TITLE or not title.isascii()) and says(self.folded, title)

    def share(self, words: Iterable[str]) -> float:
        """Return the share of the question that these distinct terms make up, by weight."""
        return sum(self.weights[word] for word in self.weights.keys() & words) / self.total

    def shared_by(self, text: str, words: frozenset[str], nearby: frozenset[str]) -> float:
        """Return the share that a sentence holds; of a Chinese question and another script, of what both can say.

        These are names, and of what its headings name a sentence speaks without saying it again.
        """
        if not self.is_chinese or reads_chinese(text):
            return self.share(words)
        of_both = {word: weight for word, weight in self.weights.items() if word.isascii()}
        held = sum(of_both.get(word, 0.0) for word in words | nearby)
        return _OTHER_SCRIPT * held / sum(of_both.values()) if held else 0.0

    def near_share(self, words: Iterable[str]) -> float:
        """Return the same, each term counted by how near it stands to the question word."""
        total = sum(weight * self.near.get(word, 0.0) for word, weight in self.weights.items())
        return sum(self.weights.get(word, 0.0) * self.near.get(word, 0.0) for word in words) / (total or 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A sentence that may be quoted.

    Attributes:
        score: Its score by itself.
        told: The part of the score from its own text, without the standing of its chunk.
        cosine: Its cosine with the question, in the usual scale; 0 if not computed.
        standing: How well its chunk was found, from 0 to 1.3.
        bridged: Its chunk's score for being reached over a bridge, as a share of the best chunk's score.
        title: Title of its document by `plain_name`; empty if it has none.
        own: Terms of the question that it holds.
        names: Names in it, in lower case.
        new: Names in it that the question does not say.
    """

    sentence: Quotable
    score: float
    told: float
    cosine: float
    standing: float
    bridged: float
    title: str
    own: frozenset[str]
    names: frozenset[str]
    new: tuple[NameSpan, ...]

    @property
    def document_id(self) -> str:
        """The document that holds it."""
        return self.sentence.item.chunk.document_id

    @property
    def new_names(self) -> frozenset[str]:
        """The names that the question does not say, in lower case."""
        return frozenset(name.text.casefold() for name in self.new)


def plain_name(name: str) -> str:
    """Return a name as names are compared: in lower case, without brackets behind it and an article before it."""
    return _ARTICLE.sub("", _IN_BRACKETS.sub("", name.strip()).casefold())


def says(text: str, name: str) -> bool:
    """Return whether a text in lower case holds a plain name, not as a part of longer words."""
    if not name.isascii():
        return name in text
    return bool(name) and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None
