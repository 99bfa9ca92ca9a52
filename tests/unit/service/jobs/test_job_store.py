from __future__ import annotations

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from heliograph.errors import ConflictError, NotFoundError, OverloadedError
from heliograph.service.jobs.models import DocumentVersion, Job, JobKind, JobProgress, JobRequest, JobState
from heliograph.service.jobs.store import JobStore

FILES = JobRequest(JobKind.FILES, "t1", "me", ("a.md", "b.md"), metadata={"team": "red"})


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(tmp_path)


def _end(store: JobStore, job: Job) -> None:
    store.begin(job.id)
    store.end(job.id, JobState.DONE)


def test_accepted_job_is_read_by_another_process(store: JobStore, tmp_path: Path) -> None:
    assert not store.exists()
    job = store.add(FILES)
    other = JobStore(tmp_path)
    assert other.exists()
    assert other.get(job.id) == job
    assert (job.request, job.state, other.upcoming(), other.of_track("t1")) == (FILES, JobState.WAITING, [job], [job])


def test_work_on_the_whole_workspace_waits_once(store: JobStore) -> None:
    first = store.add(JobRequest(JobKind.PROCESS, "t1"))
    assert store.add(JobRequest(JobKind.PROCESS, "t2")) == first
    store.begin(first.id)
    second = store.add(JobRequest(JobKind.PROCESS, "t3"))
    assert second.id != first.id
    assert store.add(FILES).id != store.add(FILES).id


def test_job_that_is_about_to_be_cancelled_stands_for_no_other(store: JobStore) -> None:
    first = store.add(JobRequest(JobKind.PROCESS, "t1"))
    store.cancel(first.id, "me")
    assert store.add(JobRequest(JobKind.PROCESS, "t2")).id != first.id


def test_too_many_jobs_are_refused_but_not_what_follows_from_one(store: JobStore) -> None:
    store.add(FILES, 2)
    store.add(FILES, 2)
    with pytest.raises(OverloadedError) as error:
        store.add(FILES, 2)
    assert error.value.retry_after_seconds > 0
    store.add(JobRequest(JobKind.PROCESS, "t"))


def test_nothing_is_accepted_while_everything_is_deleted(store: JobStore) -> None:
    clear = store.add(JobRequest(JobKind.CLEAR, "t"), 10)
    with pytest.raises(ConflictError):
        store.add(FILES, 10)
    _end(store, clear)
    store.add(FILES, 10)


def test_job_goes_through_its_states(store: JobStore) -> None:
    job = store.add(FILES)
    store.begin(job.id)
    progress = JobProgress(1, 2, {"pending": 1}, ("b.md: broken",))
    store.report(job.id, progress)
    running = store.get(job.id)
    assert (running.state, running.progress, running.started_at is not None) == (JobState.RUNNING, progress, True)
    store.postpone(job.id, "the model is down", 3, 60)
    parked = store.get(job.id)
    assert (parked.state, parked.error, parked.attempts) == (JobState.WAITING, "the model is down", 3)
    assert parked.due_at > job.due_at
    store.end(job.id, JobState.FAILED, "why")
    ended = store.get(job.id)
    assert (ended.state, ended.error, ended.finished_at is not None, ended.is_unfinished) == (
        "failed",
        "why",
        True,
        False,
    )
    assert store.cancel(job.id, "me").cancelled_by == ""


def test_ended_job_says_nothing_about_its_documents_but_their_names(store: JobStore, tmp_path: Path) -> None:
    job = store.add(replace(FILES, metadata={"owner": "Xylocarpon"}))
    store.begin(job.id)
    store.end(job.id, JobState.DONE)
    assert store.get(job.id).request == replace(FILES, metadata=None)
    store.close()
    assert not any(b"Xylocarpon" in path.read_bytes() for path in tmp_path.iterdir())


def test_what_a_dead_process_ran_waits_again(store: JobStore) -> None:
    job = store.add(FILES)
    store.begin(job.id)
    store.take_over()
    assert store.get(job.id).state is JobState.WAITING


def test_old_jobs_and_messages_are_dropped(store: JobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heliograph.service.jobs.store._MOST_FINISHED", 3)
    monkeypatch.setattr("heliograph.service.jobs.store._MOST_MESSAGES", 4)
    jobs = [store.add(FILES) for _ in range(8)]
    for job in jobs[:6]:
        _end(store, job)
    store.add(FILES)
    found, total = store.page(0, 100)
    assert total == len(found) == 3 + 2 + 1
    with pytest.raises(NotFoundError, match=jobs[0].id):
        store.get(jobs[0].id)
    for number in range(9):
        store.tell(f"message {number}")
    assert [text for _, text in store.state(10).messages] == [f"message {number}" for number in range(5, 9)]
    assert [text for _, text in store.state(1).messages] == ["message 8"]


def test_files_that_were_read_are_remembered(store: JobStore) -> None:
    store.note_read({"a.md": (1, 2), "b.md": (3, 4)})
    store.note_read({"a.md": (5, 6)})
    assert store.read_files() == {"a.md": (5, 6), "b.md": (3, 4)}
    store.forget_read(["a.md"])
    assert list(store.read_files()) == ["b.md"]
    store.forget_read()
    assert store.read_files() == {}


def test_workspace_that_was_removed_has_no_jobs_and_one_made_anew_none_of_the_old(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    store = JobStore(folder)
    store.add(FILES)
    shutil.rmtree(folder)
    with pytest.raises(NotFoundError):
        store.upcoming()
    folder.mkdir()
    assert store.upcoming() == []


def test_of_many_jobs_what_comes_next_is_read(store: JobStore) -> None:
    jobs = [store.add(FILES) for _ in range(30)]
    url = store.add(JobRequest(JobKind.URL, "t", sources=("http://example.org",)))
    store.begin(jobs[0].id)
    store.postpone(jobs[1].id, "later", 1, 60)
    assert [job.id for job in store.upcoming()] == [jobs[0].id, jobs[1].id, jobs[2].id, url.id]
    assert store.count_unfinished() == {JobKind.FILES: 30, JobKind.URL: 1}
    assert store.cancel_all([JobKind.FILES], "me") == 30
    assert {job.cancelled_by for job in store.upcoming()} == {"me", ""}


def test_versions_of_a_text_are_kept_until_they_are_forgotten(store: JobStore) -> None:
    def version(document: str, text: str) -> DocumentVersion:
        return DocumentVersion(document, "ann", "t", len(text), text, datetime(2026, 1, 1, tzinfo=UTC))

    store.note_versions([version("a", "one"), version("b", "other")])
    store.note_versions([version("a", "three")])
    store.note_versions([version("a", "three")])
    assert store.versions("a", 10) == [version("a", "three"), version("a", "one")]
    assert store.versions("a", 1) == [version("a", "three")]
    store.forget_versions(["a"])
    assert (store.versions("a", 10), store.versions("b", 10)) == ([], [version("b", "other")])
    store.forget_versions()
    assert store.versions("b", 10) == []


def test_file_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    store = JobStore(tmp_path)
    job = store.add(FILES)
    store.close()
    with apsw.Connection(str(tmp_path / "jobs.db")) as connection:
        connection.execute("DROP TABLE version")
        connection.pragma("user_version", 1)
    store = JobStore(tmp_path)
    assert (store.get(job.id).id, store.versions("a", 10)) == (job.id, [])
    store.close()
