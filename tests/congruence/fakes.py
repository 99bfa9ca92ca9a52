"""Models that cost nothing and say the same to whoever asks: LightRAG or ours. Imports nothing of either."""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import json
import re
from hashlib import md5

import numpy as np

DIMENSION = 96
# What each sentence says: entities (name, type, description) and relations (source, target, keywords, description).
SENTENCES = {
    "Alice Moreau leads the Aurora project in Lisbon.": (
        [
            ("Alice Moreau", "person", "Alice Moreau leads the Aurora project."),
            ("Aurora", "concept", "Aurora is a project led by Alice Moreau."),
            ("Lisbon", "location", "Lisbon is the city of the Aurora project."),
        ],
        [
            ("Alice Moreau", "Aurora", "leadership,project", "Alice Moreau leads Aurora."),
            ("Aurora", "Lisbon", "place", "Aurora is based in Lisbon."),
        ],
    ),
    "The Aurora project measures river water with the Heron sensor.": (
        [
            ("Aurora", "concept", "Aurora measures river water."),
            ("Heron", "artifact", "Heron is a sensor for river water."),
        ],
        [("Aurora", "Heron", "measurement,sensor", "Aurora measures with Heron.")],
    ),
    "Bob Tanaka built the Heron sensor in Kyoto.": (
        [
            ("Bob Tanaka", "person", "Bob Tanaka built the Heron sensor."),
            ("Heron", "artifact", "Heron was built by Bob Tanaka."),
            ("Kyoto", "location", "Kyoto is where Heron was built."),
        ],
        [
            ("Bob Tanaka", "Heron", "construction", "Bob Tanaka built Heron."),
            ("Heron", "Kyoto", "origin,place", "Heron comes from Kyoto."),
        ],
    ),
    "Kyoto funds the Meridian archive.": (
        [
            ("Kyoto", "location", "Kyoto funds Meridian."),
            ("Meridian", "organization", "Meridian is an archive funded by Kyoto."),
        ],
        [("Kyoto", "Meridian", "funding", "Kyoto funds Meridian.")],
    ),
    "北京大学研究量子计算。": (
        [
            ("北京大学", "organization", "北京大学研究量子计算。"),
            ("量子计算", "concept", "量子计算是北京大学研究的方向。"),
        ],
        [("北京大学", "量子计算", "研究", "北京大学研究量子计算。")],
    ),
}
TEXTS = [
    "Alice Moreau leads the Aurora project in Lisbon. The Aurora project measures river water with the Heron sensor.",
    "Bob Tanaka built the Heron sensor in Kyoto.",
    "Kyoto funds the Meridian archive.",
]
CALLS: list[str] = []


async def model(prompt, system_prompt=None, history_messages=None, **kwargs):
    """Read out of a prompt what it asks, and answer by the table above."""
    read = f"{system_prompt or ''}\n{prompt}"
    if "high_level_keywords" in read and kwargs.get("response_format"):
        CALLS.append("keywords")
        question = prompt.lower()
        names = [name for name in _names() if name.lower() in question]
        words = [word for word in ("leadership", "measurement", "construction", "funding", "研究") if word in question]
        return json.dumps({"high_level_keywords": words, "low_level_keywords": names})
    if "stream" in kwargs:
        CALLS.append("answer")
        text = f"Asked: {prompt}"
        return _pieces(text) if kwargs["stream"] else text
    if history_messages:
        CALLS.append("more")
        return "<|COMPLETE|>"
    found = [said for sentence, said in SENTENCES.items() if sentence in prompt]
    CALLS.append("extract")
    if kwargs.get("response_format"):
        return json.dumps(
            {
                "entities": [
                    {"name": name, "type": kind, "description": said}
                    for entities, _ in found
                    for name, kind, said in entities
                ],
                "relationships": [
                    {"source": source, "target": target, "keywords": words, "description": said}
                    for _, relations in found
                    for source, target, words, said in relations
                ],
            }
        )
    rows = ["<|#|>".join(("entity", *item)) for entities, _ in found for item in entities]
    rows += ["<|#|>".join(("relation", *item)) for _, relations in found for item in relations]
    return "\n".join([*rows, "<|COMPLETE|>"])


async def _pieces(text):
    for word in re.findall(r"\S+\s*", text):
        yield word


def _names():
    return list(dict.fromkeys(item[0] for entities, _ in SENTENCES.values() for item in entities))


async def failing(prompt, system_prompt=None, history_messages=None, **kwargs):
    """Be out of reach."""
    raise RuntimeError("the model is down")


async def embed(texts, **kwargs):
    """Return vectors of words and of pairs of Chinese characters."""
    vectors = np.zeros((len(texts), DIMENSION), np.float32)
    for row, text in enumerate(texts):
        words = re.findall(r"[a-z]+", text.lower()) + re.findall(r"(?=([\u4e00-\u9fff]{2}))", text)
        for word in words or ["nothing"]:
            vectors[row, int(md5(word.encode()).hexdigest(), 16) % DIMENSION] += 1
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


async def rerank(query, documents, top_n=None, **kwargs):
    """Put texts that share more words with a question first, of equals the shorter."""
    asked = set(re.findall(r"[a-z]+", query.lower()))
    scores = [len(asked & set(re.findall(r"[a-z]+", text.lower()))) / 10 + 1 / (100 + len(text)) for text in documents]
    order = sorted(range(len(documents)), key=lambda index: -scores[index])
    return [{"index": index, "relevance_score": scores[index]} for index in order[:top_n]]


class Characters:
    """Counts every character as one token, so that nothing is downloaded."""

    def encode(self, content):
        return [ord(sign) for sign in content]

    def decode(self, tokens):
        return "".join(map(chr, tokens))
