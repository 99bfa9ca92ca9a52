"""Checking that every projection agrees with what the documents say, and making it so.

The workspace is walked in windows of ids while others read and write: a window in which something seems wrong is
looked at again if a commit came in between. Repairs are commits like any other, so readers never see half of one.
Other engines beside the store are compared with it by ids and contents, at the end, and made anew where they differ.
`rebuild` walks the same way and makes everything anew, whether it seems right or not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import numpy as np

from heliograph.embedding.base import EmbeddingModel
from heliograph.errors import StaleChangesetError, StoreDamaged
from heliograph.maintenance.document_check import CHUNK_KINDS, check_chunks, check_documents
from heliograph.maintenance.findings import Findings
from heliograph.maintenance.followers import check_follower
from heliograph.maintenance.graph_check import ENTITY_KINDS, RELATION_KINDS, check_entities, check_relations
from heliograph.maintenance.problems import CheckReport, Problem
from heliograph.maintenance.recount import Recounter
from heliograph.maintenance.windows import Window, id_windows
from heliograph.stores.base import Store
from heliograph.stores.changeset import Changeset, Collection, VectorBatch
from heliograph.stores.inspection import ScanKind

__all__ = ["CheckProgress", "Checker"]

# Told what is being looked at and how many of it have been.
CheckProgress = Callable[[str, int], None]

_MAX_TRIES = 5
_SHOWN = 1_000

_Look = Callable[[Window, Mapping[str, int]], Awaitable[Findings]]


class Checker:
    """Checks and rebuilds one workspace.

    Args:
        store: The workspace.
        embedding: Makes vectors anew.
        recounter: Says what entities and relations should be.
    """

    def __init__(self, store: Store, embedding: EmbeddingModel, recounter: Recounter) -> None:
        self._store = store
        self._embedding = embedding
        self._recounter = recounter

    async def check(self, *, repair: bool = False, progress: CheckProgress | None = None) -> CheckReport:
        """Compare everything; with `repair`, put right what can be.

        Raises:
            ModelError: Something must be embedded anew and cannot; what was repaired before stays so.
            StoreError: The store cannot be read or written.
        """
        tally = _Tally(progress)
        is_known = await self._check_damage(tally, repair=repair)
        # Where no checksum tells what is damaged, it is found by reading, and may be put right by a second repair.
        for may_repair in (repair, False):
            try:
                await self._walk(tally, repair=repair, every=False)
            except StoreDamaged as error:
                if may_repair:
                    await self._check_damage(tally, repair=True, is_certain=True)
                    continue
                if not is_known:
                    tally.add(Findings((Problem("store", "", str(error), is_repairable=False),)))
            break
        return tally.report()

    async def _check_damage(self, tally: _Tally, *, repair: bool, is_certain: bool = False) -> bool:
        """Return whether there is damage that was not put right, and is named."""
        found = await self._store.inspection.find_damage(repair=repair, is_certain=is_certain)
        tally.repaired += sum(item.is_repaired for item in found)
        problems = (
            Problem("document" if item.document_id else "store", item.document_id, item.message, item.is_repaired)
            for item in found
        )
        tally.add(Findings(tuple(problems)))
        return bool(found) and not repair

    async def rebuild(self, *, progress: CheckProgress | None = None) -> CheckReport:
        """Make all projections anew from the truth; answers before, meanwhile and after are the same.

        Raises:
            ModelError: The embedding model failed; what was made before stands, and the rest is as it was.
            StoreError: The store cannot be read or written.
        """
        tally = _Tally(progress)
        await self._walk(tally, repair=True, every=True)
        await self._store.inspection.repair()
        return tally.report()

    async def _walk(self, tally: _Tally, *, repair: bool, every: bool) -> None:
        store, recounter = self._store, self._recounter

        async def documents(window: Window, _: Mapping[str, int]) -> Findings:
            return await check_documents(store, window[ScanKind.DOCUMENTS])

        async def chunks(window: Window, texts: Mapping[str, int]) -> Findings:
            return await check_chunks(store, window, texts, every=every)

        async def relations(window: Window, _: Mapping[str, int]) -> Findings:
            return await check_relations(store, recounter, window, every=every)

        async def entities(window: Window, texts: Mapping[str, int]) -> Findings:
            return await check_entities(store, recounter, window, texts, every=every)

        # Relations before entities: no entity may go while a relation still names it.
        passes: tuple[tuple[tuple[ScanKind, ...], Collection | None, _Look], ...] = (
            ((ScanKind.DOCUMENTS,), None, documents),
            (CHUNK_KINDS, Collection.CHUNKS, chunks),
            (RELATION_KINDS, None, relations),
            (ENTITY_KINDS, Collection.ENTITIES, entities),
        )
        for kinds, collection, look in passes:
            digests = _Digests(store, collection)
            async for window in id_windows(store.inspection, kinds):
                await self._settle(window, look, digests, tally, repair=repair)
        await self._check_files(tally, repair=repair)
        await self._check_followers(tally, repair=repair)

    async def _settle(self, window: Window, look: _Look, digests: _Digests, tally: _Tally, *, repair: bool) -> None:
        """Look at a window until no commit came in between, or nothing seems wrong; then repair it if wanted."""
        findings = Findings()
        for _ in range(_MAX_TRIES):
            findings = await look(window, await digests.read())
            if findings.problems and await digests.forget_if_old():
                continue
            if repair and findings.repair is not None:
                try:
                    await self._repair(findings.repair, findings.vectors)
                except StaleChangesetError:
                    continue
                tally.repaired += sum(problem.is_repairable for problem in findings.problems)
            break
        tally.add(findings)

    async def _check_files(self, tally: _Tally, *, repair: bool) -> None:
        inspection = self._store.inspection
        faults = await inspection.find_faults()
        if faults and repair:
            await inspection.repair()
            tally.repaired += len(faults) - len(await inspection.find_faults())
        tally.add(Findings(tuple(Problem("store", "", fault) for fault in faults)))

    async def _check_followers(self, tally: _Tally, *, repair: bool) -> None:
        for follower in self._store.followers:
            findings = await check_follower(follower)
            tally.add(findings)
            if repair and any(problem.is_repairable for problem in findings.problems):
                await follower.rebuild()
                tally.repaired += len(findings.problems) - len((await check_follower(follower)).problems)

    async def _repair(self, changeset: Changeset, texts: Mapping[Collection, Mapping[str, str]]) -> None:
        vectors = {collection: await self._embed(part) for collection, part in texts.items() if part}
        await self._store.apply(replace(changeset, vectors=vectors))

    async def _embed(self, texts: Mapping[str, str]) -> VectorBatch:
        distinct = list(dict.fromkeys(texts.values()))
        found = (await self._embedding.embed(distinct, "document")).vectors
        places = {text: place for place, text in enumerate(distinct)}
        vectors = np.stack([found[places[text]] for text in texts.values()])
        return VectorBatch(tuple(texts), vectors, tuple(texts.values()))


class _Digests:
    """Full text of a collection in digests, read once and again when a comparison was overtaken by a commit.

    Args:
        store: Where it is read.
        collection: Of what; None means that no full text is compared.
    """

    def __init__(self, store: Store, collection: Collection | None) -> None:
        self._store = store
        self._collection = collection
        self._version = -1
        self._digests: Mapping[str, int] = {}

    async def read(self) -> Mapping[str, int]:
        if self._version < 0:
            self._version = await self._store.get_data_version()
            if self._collection is not None:
                self._digests = await self._store.inspection.digest_texts(self._collection)
        return self._digests

    async def forget_if_old(self) -> bool:
        """Return whether there was a commit since the last reading, which is then forgotten."""
        is_old = await self._store.get_data_version() != self._version
        if is_old:
            self._version = -1
        return is_old


class _Tally:
    """Adds up what was found."""

    def __init__(self, progress: CheckProgress | None) -> None:
        self.repaired = 0
        self._progress = progress
        self._problems: list[Problem] = []
        self._problem_count = 0
        self._counts = {"documents": 0, "chunks": 0, "entities": 0, "relations": 0}

    def add(self, findings: Findings) -> None:
        self._problem_count += len(findings.problems)
        self._problems += findings.problems[: _SHOWN - len(self._problems)]
        for name in self._counts:
            if looked := getattr(findings, name):
                self._counts[name] += looked
                if self._progress:
                    self._progress(name, self._counts[name])

    def report(self) -> CheckReport:
        return CheckReport(tuple(self._problems), self._problem_count, self.repaired, **self._counts)
