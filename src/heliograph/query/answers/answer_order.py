"""Which of the sentences goes first: the one likeliest to hold the answer.

The sentence that shares most with a question of several steps is often the one that leads to the answer: it speaks of
what the question names and brings up a new name. So it competes with the sentences that this name leads on to, by what
stands near the question word, by how well their chunks were found, and by names of the kind asked for that were not
brought up before. The leading sentence stays beside the winner, as second. Each side of a comparison has a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

from heliograph.query.answers.candidates import AskedQuestion, Candidate, says
from heliograph.query.answers.comparison import side_sentences
from heliograph.query.answers.expected_answer import type_match
from heliograph.text.analysis import terms

# Sentences whose names may lead on; shorter names are not looked for within titles.
_LEADING = 3
_LEAST_IN_TITLE = 4
# Of all that stands near the question word worth 1: a chunk's standing, how much of it is owed to a bridge, a fitting
# name, and being the leading sentence, which in the very document that the question names gives the answer less often.
_STANDING = 1.25
_BRIDGE = 0.75
_TYPE = 0.6
_LEADS = 0.2
_LEADS_FROM_NAMED = -0.7
# What a sentence must hold of the question, by weight, and of the kind asked for, to answer it alone.
_WHOLE = 0.999
_LEAST_TYPE = 0.5
# From this share on a chunk counts as reached over a bridge.
_LEAST_BRIDGED = 0.02


def answer_first(asked: AskedQuestion, chosen: Sequence[Candidate], candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the chosen sentences, the one likeliest to answer first; it may be another of the candidates.

    Args:
        asked: The question.
        chosen: Sentences in the order of choice.
        candidates: All that could be chosen.
    """
    if not chosen:
        return []
    lead = chosen[0]

    def likelihood(candidate: Candidate) -> float:
        known = _known_before(candidate, chosen)
        fresh = [name for name in candidate.new if name.text.casefold() not in known]
        value = asked.near_share(candidate.own) + _STANDING * candidate.standing + _BRIDGE * candidate.bridged
        value += _TYPE * type_match(asked.expected, candidate.sentence.shown, fresh)
        if candidate is not lead:
            return value
        return value + (_LEADS_FROM_NAMED if asked.names(lead.title) else _LEADS)

    first = side_sentences(asked, sorted(candidates, key=_score, reverse=True)) if asked.sides else []
    rivals = [item for item in candidates if item.document_id != lead.document_id and _follows(item, chosen, asked)]
    first = first or _alone(asked, lead, candidates) or [max((lead, *rivals), key=likelihood)]
    return [*first, *(candidate for candidate in chosen if candidate not in first)]


def _alone(asked: AskedQuestion, lead: Candidate, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the sentence that answers alone: of the document that the question names, all of it and of its kind."""
    if not asked.names(lead.title):
        return []
    title = frozenset(terms(lead.title))
    whole = [
        item
        for item in candidates
        if item.document_id == lead.document_id
        and asked.share((item.own | title) & asked.weights.keys()) >= _WHOLE
        and type_match(asked.expected, item.sentence.shown, item.new) >= _LEAST_TYPE
    ]
    return [max(whole, key=_score)] if whole else []


def _score(candidate: Candidate) -> float:
    return candidate.score


def _before(candidate: Candidate, chosen: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return the leading sentences that stand before one."""
    leading = chosen[:_LEADING]
    return leading[: leading.index(candidate)] if candidate in leading else leading


def _known_before(candidate: Candidate, chosen: Sequence[Candidate]) -> frozenset[str]:
    return frozenset[str]().union(*(item.new_names for item in _before(candidate, chosen)))


def _follows(candidate: Candidate, chosen: Sequence[Candidate], asked: AskedQuestion) -> bool:
    """Return whether a sentence speaks of what leading sentences bring up, itself or by the title of its document."""
    known = _known_before(candidate, chosen)
    is_bridged = candidate.bridged > _LEAST_BRIDGED and asked.near_share(candidate.own) > 0.0
    if is_bridged or not known.isdisjoint(candidate.names):
        return True
    if not candidate.title or asked.names(candidate.title):
        return False
    if any(says(item.sentence.shown.casefold(), candidate.title) for item in _before(candidate, chosen)):
        return True
    return any(name in candidate.title and len(name) >= _LEAST_IN_TITLE for name in known)
