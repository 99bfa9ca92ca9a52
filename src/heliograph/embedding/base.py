"""The contract of an embedding model: texts in, unit vectors out.

Vectors that a model returns are ready to compare by cosine: of length 1. What the cosines mean differs from model to
model; `EmbeddingModel.scale` says it, so that weights and thresholds mean about the same for every one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from heliograph.models import Usage

# What the cosines of a model are worth: models crowd them into bands of their own.
#
# One model gives 0.05 to texts that have nothing to do with each other and 0.5 to a question and its answer; another
# 0.74 and 0.88 to the same texts. Fused retrieval adds cosines to other scores and weighs differences between them, so
# it reads them in one usual scale, which is that of the embedding inside this package. Two points say how to bring a
# model's cosines there: what it gives to a few questions and the passages that answer them, and to questions and
# passages that do not belong together. They belong to the model, not to a corpus, so a growing index keeps its scores.

_T = TypeVar("_T", float, NDArray[np.float32])

# A model that tells a question's answer from any other text by less than this tells nothing by its cosines.
_LEAST_RANGE = 0.02

_ENGLISH = (
    (
        "Which river runs through the city of Graz?",
        "Graz, the second largest city of Austria, lies on both banks of the river Mur.",
    ),
    (
        "Who wrote the opera about a barber in Seville?",
        "Gioachino Rossini composed The Barber of Seville in less than three weeks; it was first sung in Rome in 1816.",
    ),
    (
        "How do I reset the password of my account?",
        "If you cannot sign in any more, choose 'Forgot password' below the form; a link to set a new one is mailed.",
    ),
    (
        "What does the warranty of the pump cover?",
        "Seals, bearings and the motor of the pump are repaired free of charge for two years, unless it has run dry.",
    ),
    (
        "When was the suspension bridge over the strait opened?",
        "After six years of work the suspension bridge across the strait was opened to traffic in July 1973.",
    ),
    (
        "Why do leaves turn yellow in autumn?",
        "As days grow shorter, trees stop making chlorophyll, and yellow pigments beneath it show in their leaves.",
    ),
    (
        "Which protein carries oxygen in the blood?",
        "Haemoglobin, a protein of red blood cells, binds oxygen in the lungs and gives it off in tissue.",
    ),
    (
        "How many days of leave do new employees have?",
        "Employees have 25 days of paid leave a year; in the first year, two for every month worked.",
    ),
)
_CHINESE = (
    ("格拉茨市位于哪条河畔？", "格拉茨是奥地利第二大城市，坐落在穆尔河的两岸。"),
    ("谁创作了塞维利亚理发师这部歌剧？", "罗西尼不到三个星期就写成了歌剧《塞维利亚的理发师》。"),
    ("怎样重设账户的密码？", "无法登录时，请点击表单下方的“忘记密码”，用邮件里的链接设置新密码。"),
    ("水泵的保修范围包括什么？", "两年之内，水泵的密封件、轴承和电机免费维修，干转造成的损坏除外。"),
    ("海峡上的悬索桥是什么时候通车的？", "经过六年施工，横跨海峡的悬索桥于一九七三年七月正式通车。"),
    ("树叶为什么在秋天变黄？", "入秋以后，树木不再合成叶绿素，叶片里被遮住的黄色素便显露出来。"),
    ("哪种蛋白质在血液中运输氧气？", "红细胞里的血红蛋白在肺部与氧结合，再到各个组织中把氧释放出来。"),
    ("新员工每年有多少天年假？", "员工每年享有二十五天带薪年假，入职第一年按每月两天计算。"),
)
_LANGUAGES = (_ENGLISH, _CHINESE)

QUESTIONS = tuple(question for pairs in _LANGUAGES for question, _ in pairs)
PASSAGES = tuple(passage for pairs in _LANGUAGES for _, passage in pairs)
"""Texts that calibrate a model, as queries and as documents; the n-th passage answers the n-th question."""


@dataclass(frozen=True, slots=True)
class CosineScale:
    """What a model's cosines mean.

    Attributes:
        unrelated: Cosine of a question and a passage that has nothing to do with it.
        related: Cosine of a question and the passage that answers it; above `unrelated`.
    """

    unrelated: float
    related: float

    def usual(self, cosine: _T) -> _T:
        """Return the cosine that says the same in the usual scale; may lie outside of [-1, 1]."""
        if self == USUAL_SCALE:
            return cosine
        usual = USUAL_SCALE
        factor = (usual.related - usual.unrelated) / (self.related - self.unrelated)
        return (cosine - self.unrelated) * factor + usual.unrelated


USUAL_SCALE = CosineScale(0.15, 0.61)
"""That of the embedding inside the package."""


def cosines(vectors: NDArray[np.float32], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the products of rows and a vector; equal rows have equal ones, which a product of matrices does not give.

    Nor does this wake the threads of a linear algebra library, which go on spinning for longer than the product takes.

    Args:
        vectors: `(n, dimension)`.
        vector: `(dimension,)`.
    """
    return np.einsum("ij,j->i", vectors, vector)


def scale_between(questions: NDArray[np.float32], passages: NDArray[np.float32]) -> CosineScale:
    """Return a model's scale, from its vectors of `QUESTIONS` and `PASSAGES`.

    Of the languages the one counts that the model tells most in, since some know one only. A model whose cosines tell
    nothing has the usual scale.

    Args:
        questions: `(n, dimension)`, unit rows.
        passages: The same.
    """
    size = len(_ENGLISH)
    starts = range(0, len(questions), size)
    scales: list[CosineScale] = []
    for start in starts:
        cosines = questions[start : start + size] @ passages[start : start + size].T
        is_pair = np.eye(len(cosines), dtype=bool)
        scales.append(CosineScale(float(np.median(cosines[~is_pair])), float(np.median(cosines[is_pair]))))
    widest = max(scales, key=lambda scale: scale.related - scale.unrelated)
    return widest if widest.related - widest.unrelated >= _LEAST_RANGE else USUAL_SCALE


EmbeddingKind = Literal["query", "document"]


@dataclass(frozen=True, slots=True)
class EmbeddingInfo:
    """What a store must know of the model that filled it.

    Attributes:
        name: Identity of model and post-processing; another name means vectors that cannot be compared.
        dimension: Length of each vector.
        max_input_tokens: Longest text, in the model's own tokens; longer ones are cut or windowed by the model.
        min_score: Cosine below which two texts have nothing to do with each other.
        scale: What its cosines mean; None if that is not known and must be measured.
    """

    name: str
    dimension: int
    max_input_tokens: int
    min_score: float = 0.2
    scale: CosineScale | None = None


@dataclass(frozen=True, slots=True)
class Embeddings:
    """`vectors`: `(n, dimension)` float32, rows of length 1 in the order of the texts; `usage`: what they cost."""

    vectors: NDArray[np.float32]
    usage: Usage


class EmbeddingModel(ABC):
    """Turns texts into vectors. Implementations are safe to call from many tasks at once."""

    _measured: CosineScale | None = None

    @property
    @abstractmethod
    def info(self) -> EmbeddingInfo:
        """What this model is; known without a call over the network."""

    @abstractmethod
    async def embed(self, texts: Sequence[str], kind: EmbeddingKind) -> Embeddings:
        """Embed texts; no text at all gives a `(0, dimension)` array, an empty text a vector like any other.

        Args:
            texts: What to embed; any length, any Unicode, lone surrogates included.
            kind: `query` for questions and keywords, `document` for what is stored.

        Raises:
            ModelError: The model failed; its subclass says how.
        """

    async def scale(self) -> CosineScale:
        """Return what the model's cosines mean. If `info` does not say it, a few texts are embedded, the first time.

        Raises:
            ModelError: The model failed; it is asked again the next time.
        """
        known = self.info.scale or self._measured
        if known is None:
            questions = await self.embed(QUESTIONS, "query")
            passages = await self.embed(PASSAGES, "document")
            known = self._measured = scale_between(questions.vectors, passages.vectors)
        return known

    async def close(self) -> None:  # noqa: B027 (most models hold nothing)
        """Let go of connections and threads; closing twice does nothing."""
