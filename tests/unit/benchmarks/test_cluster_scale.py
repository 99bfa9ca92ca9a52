from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.cluster_scale import Cluster, simulate

_EVEN = Cluster(read=0.5, own=0.02, server=0.01, spread=0.0)


def test_one_worker_without_latency_takes_the_sum_of_what_it_reads_and_the_last_commit() -> None:
    assert simulate(_EVEN, 40) == pytest.approx(40 * 0.5 + 0.02 + 0.01)


def test_one_document_takes_the_sum_of_all_its_parts() -> None:
    assert simulate(replace(_EVEN, latency=0.005), 1) == pytest.approx(0.5 + 0.02 + 0.01 + 7 * 0.005)


def test_workers_that_no_commit_holds_up_share_the_work_evenly() -> None:
    assert simulate(Cluster(read=0.5, own=0.0, server=0.0, workers=8, spread=0.0), 80) == pytest.approx(10 * 0.5)


@pytest.mark.parametrize("latency", [0.0, 0.001, 0.02])
@pytest.mark.parametrize("owners", [1, 4, 16])
def test_no_number_of_workers_commits_more_than_owners_and_server_can(latency: float, owners: int) -> None:
    cluster = Cluster(read=0.5, own=0.02, server=0.01, owners=owners, latency=latency, server_cores=4)
    for workers in (16, 64, 256):
        rate = 20 * workers / simulate(replace(cluster, workers=workers), 20 * workers)
        assert rate <= min(cluster.bound, workers / 0.5 * 1.1)


def test_owners_with_more_workers_than_they_can_serve_are_always_at_work() -> None:
    cluster = Cluster(read=0.5, own=0.02, server=0.01, workers=64, latency=0.005)
    assert 12_800 / simulate(cluster, 12_800) == pytest.approx(cluster.bound, rel=0.05)


def test_owners_that_share_a_server_are_bounded_by_its_cores() -> None:
    cluster = Cluster(read=0.01, own=0.001, server=0.02, workers=64, owners=16, server_cores=2)
    assert cluster.bound == pytest.approx(2 / 0.02)
    assert 6_400 / simulate(cluster, 6_400) == pytest.approx(cluster.bound, rel=0.05)


def test_latency_never_makes_it_faster() -> None:
    cluster = Cluster(read=0.5, own=0.02, server=0.01, workers=16)
    taken = [simulate(replace(cluster, latency=latency), 320) for latency in (0.0, 0.001, 0.005, 0.02)]
    assert taken == sorted(taken)
