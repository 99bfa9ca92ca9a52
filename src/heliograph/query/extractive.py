"""Answers without a chat model: the sentences of the retrieved chunks that say most about the question.

A sentence scores by the question's terms that it holds, each weighted by how rare it is among the retrieved chunks,
less if it is in another script than the question, a little less the longer it is, and a little more the better its
chunk ranked. The best are quoted as they stand, each with the number of its document, under a line that says that
nobody wrote this answer.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from heliograph.query.context_format import shown_source
from heliograph.query.retrieved import Context, Failure, Retrieval, RetrievedChunk
from heliograph.text.analysis import detect_language, terms
from heliograph.text.language import is_chinese
from heliograph.text.sentences import sentence_spans

__all__ = ["extractive_answer", "nothing_found"]

_MAX_SENTENCES = 5
_MAX_QUOTE_CHARACTERS = 600
_RANK_WEIGHT = 0.5
_LENGTH_WEIGHT = 0.15
_OTHER_SCRIPT_WEIGHT = 0.6
# Headings and fences name things; they say nothing.
_NO_STATEMENTS = ("#", "```", "~~~")
_BULLET = re.compile(r"^(?:[-*+•>]\s+)+")

_LABELS = {
    "en": "Sentences quoted from the documents; no chat model is configured to write an answer:",
    "zh": "以下内容摘自文档原文（未配置对话模型，未生成回答）：",
}
_FAILURES = {
    Failure.NO_RESULTS: {
        "en": "Nothing was found in the indexed documents that answers this question.",
        "zh": "在已索引的文档中没有找到可以回答这个问题的内容。",
    },
    Failure.NO_KEYWORDS: {
        "en": "No keywords were found in this question, so nothing was searched. Put it differently, give keywords, "
        "or ask in mode 'naive'.",
        "zh": "没有在这个问题中找到关键词，因此未进行检索。请换一种问法、提供关键词，或使用 naive 模式。",
    },
    Failure.EMPTY_CONTEXT: {
        "en": "Something was found, but none of it fits the token budget. Raise max_total_tokens.",
        "zh": "找到了相关内容，但都超出了 token 预算。请调大 max_total_tokens。",
    },
}


@dataclass(frozen=True, slots=True)
class _Sentence:
    text: str
    reference_id: str
    score: float


def nothing_found(retrieval: Retrieval) -> str:
    """Return the statement that there is nothing to answer from, and why, in English or Chinese."""
    return _in_language(_FAILURES[retrieval.failure or Failure.NO_RESULTS], retrieval.question)


def extractive_answer(question: str, context: Context) -> str:
    """Return up to five quoted sentences with citations and the list of documents cited; empty without chunks.

    Takes milliseconds for a full context, so it belongs into a thread.
    """
    best = _best_sentences(question, context.chunks)
    if not best:
        return ""
    quotes = [f"- {sentence.text} [{sentence.reference_id}]" for sentence in best]
    cited = {sentence.reference_id for sentence in best}
    documents = [
        f"- [{reference.reference_id}] {shown_source(reference.source)}"
        for reference in context.references
        if reference.reference_id in cited
    ]
    return "\n".join([_in_language(_LABELS, question), "", *quotes, "", "### References", "", *documents])


def _best_sentences(question: str, chunks: Sequence[RetrievedChunk]) -> list[_Sentence]:
    weights = _rarity(set(terms(question)), [set(terms(item.chunk.text)) for item in chunks])
    chinese = is_chinese(question)
    best: dict[str, _Sentence] = {}
    for rank, item in enumerate(chunks):
        for sentence in _scored(item, rank, weights, chinese):
            # Chunks overlap, so the same sentence may come twice.
            known = best.get(sentence.text)
            if known is None or sentence.score > known.score:
                best[sentence.text] = sentence
    return heapq.nlargest(_MAX_SENTENCES, best.values(), key=lambda sentence: sentence.score)


def _rarity(wanted: Iterable[str], documents: Sequence[set[str]]) -> dict[str, float]:
    frequencies = Counter(term for document in documents for term in document)
    return {term: math.log1p(len(documents) / frequencies[term]) for term in wanted if frequencies[term]}


def _scored(item: RetrievedChunk, rank: int, weights: dict[str, float], chinese: bool) -> Iterable[_Sentence]:
    text = item.chunk.text
    for start, end in sentence_spans(text):
        sentence = _BULLET.sub("", " ".join(text[start:end].split()))
        found = set(terms(sentence)).intersection(weights)
        if sentence.startswith(_NO_STATEMENTS) or (weights and not found):
            continue
        score = sum(weights[term] for term in found)
        score *= 1.0 if is_chinese(sentence) == chinese else _OTHER_SCRIPT_WEIGHT
        score += _RANK_WEIGHT / (1 + rank) - _LENGTH_WEIGHT * math.log1p(len(sentence) / 100)
        yield _Sentence(_shortened(sentence), item.reference_id, score)


def _shortened(sentence: str) -> str:
    if len(sentence) <= _MAX_QUOTE_CHARACTERS:
        return sentence
    return sentence[:_MAX_QUOTE_CHARACTERS].rstrip() + " …"


def _in_language(texts: dict[str, str], question: str) -> str:
    return texts["zh" if detect_language(question) == "zh" else "en"]
