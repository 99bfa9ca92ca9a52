"""Who speaks in a chat log or interview: lines such as "AdamSmith: Hi!" in which a label comes back.

A text in, spans of the speakers' names out. A label written as one word is the name it is made of ("AdamSmith" is
Adam Smith), since questions are asked about persons and not about accounts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from heliograph.text.language import stop_words
from heliograph.text.name_spans import NameSpan

__all__ = ["speakers"]

_LABEL = re.compile(
    r"^[ \t>*_-]{0,8}([^\W\d_][\w'’.-]{1,30}(?: [^\W\d_][\w'’.-]{0,20}){0,2})\**(?=:\**[ \t]|：)", re.MULTILINE
)
_CAMEL = re.compile(r"(?<=[a-zß-öø-ÿ])(?=[A-Z])")
_LEAST_TURNS = 2


def speakers(text: str) -> Iterator[NameSpan]:
    """Yield every place where a speaker's label stands; none in a text where no label comes back."""
    if ":" not in text and "：" not in text:
        return
    found = list(_LABEL.finditer(text))
    turns = Counter(match[1] for match in found)
    if max(turns.values(), default=0) < _LEAST_TURNS or len(turns) < _LEAST_TURNS:
        return
    for match in found:
        label = match[1]
        is_name = label[0].isupper() or not label[0].isascii()
        if is_name and turns[label] >= _LEAST_TURNS and label.lower() not in stop_words("en"):
            yield NameSpan(_CAMEL.sub(" ", label), match.start(1), match.end(1), "person")
