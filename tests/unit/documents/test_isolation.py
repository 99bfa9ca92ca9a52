from __future__ import annotations

import json
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from heliograph.documents import isolation, worker
from heliograph.documents.base import Limits, RawDocument
from heliograph.documents.isolation import DocumentReader
from heliograph.documents.worker import read_frame, write_frame
from heliograph.errors import HeliographError, IngestError, MissingDependencyError

from .samples import PdfPages, docx_bytes, load

MAIL = b"From: a@example.org\nSubject: Tea\n\nIt is served at four.\n"


@pytest.fixture
def reader() -> Iterator[DocumentReader]:
    reader = DocumentReader(Limits(timeout_seconds=20))
    yield reader
    reader.close()


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def raw(path: Path) -> RawDocument:
    return RawDocument(str(path), path.read_bytes())


def test_document_is_the_same_as_read_in_this_process(reader: DocumentReader, tmp_path: Path) -> None:
    for name, data in (("a.docx", docx_bytes()), ("b.pdf", PdfPages().line(72, 99, "Wörter 字.").data())):
        path = write(tmp_path / name, data)
        assert reader.load(raw(path)) == load(str(path), data)


def test_process_is_used_again_and_bad_documents_do_not_end_it(reader: DocumentReader, tmp_path: Path) -> None:
    good = write(tmp_path / "a.docx", docx_bytes())
    reader.load(raw(good))
    process = reader._process
    with pytest.raises(IngestError, match=r"broken\.pdf"):
        reader.load(raw(write(tmp_path / "broken.pdf", b"%PDF-1.4 no")))
    assert reader.load(raw(good)).title == "Gateway manual"
    assert reader._process is process


def test_text_needs_no_process(reader: DocumentReader, tmp_path: Path) -> None:
    assert reader.load(raw(write(tmp_path / "a.md", b"# A"))).title == "A"
    assert reader._process is None


@pytest.mark.parametrize(
    ("name", "data"), [("a.json", b'[{"name": "x", "y": 1}]'), ("a.csv", b"a,b\n1,2\n"), ("a.eml", MAIL)]
)
def test_what_may_unfold_beyond_its_size_is_read_in_a_process(
    reader: DocumentReader, tmp_path: Path, name: str, data: bytes
) -> None:
    path = write(tmp_path / name, data)
    assert reader.load(raw(path)) == load(str(path), data)
    assert reader._process is not None


def test_mail_that_takes_too_much_memory_is_refused(tmp_path: Path) -> None:
    reader = DocumentReader(Limits(timeout_seconds=60, max_memory_bytes=400_000_000))
    path = write(tmp_path / "a.eml", b"Subject: " + b"=?utf-8?q?a?= " * 20_000 + b"\n\nx")
    with pytest.raises(IngestError, match=r"a\.eml.*max_memory_bytes"):
        reader.load(raw(path))
    reader.close()


def test_odd_file_names_come_back_as_they_are(reader: DocumentReader, tmp_path: Path) -> None:
    for name in ("new\nline.docx", "字.docx", os.fsdecode(b"\xff\xfe.docx")):
        try:
            path = write(tmp_path / name, docx_bytes())
        except OSError:
            # Some file systems take UTF-8 only.
            continue
        assert reader.load(raw(path)).source == str(path)


def test_process_that_dies_is_an_error_of_its_document_and_replaced(reader: DocumentReader, tmp_path: Path) -> None:
    good = write(tmp_path / "a.docx", docx_bytes())
    reader.load(raw(good))
    assert reader._process
    os.kill(reader._process.pid, signal.SIGSTOP)
    killer = threading.Timer(0.1, lambda: os.kill(reader._process.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(IngestError, match=r"a\.docx.*exit code -9"):
        reader.load(raw(good))
    killer.join()
    assert reader.load(raw(good)).title == "Gateway manual"


def test_document_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    reader = DocumentReader(Limits(timeout_seconds=0.3))
    good = write(tmp_path / "a.docx", docx_bytes())
    reader._process = isolation._start()
    os.kill(reader._process.pid, signal.SIGSTOP)
    process = reader._process
    with pytest.raises(IngestError, match=r"a\.docx.*documents\.timeout_seconds"):
        reader.load(raw(good))
    assert process.poll() is not None
    reader.close()


def test_document_that_is_not_even_taken_in_time_is_given_up(tmp_path: Path) -> None:
    reader = DocumentReader(Limits(timeout_seconds=0.3))
    # More than a pipe holds.
    long = write(tmp_path / "a.csv", b"name,value\n" * 1_000_000)
    reader._process = isolation._start()
    os.kill(reader._process.pid, signal.SIGSTOP)
    with pytest.raises(IngestError, match=r"a\.csv.*documents\.timeout_seconds"):
        reader.load(raw(long))
    reader.close()


def test_documents_are_read_above_a_thousand_open_files(reader: DocumentReader, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2_048 and hard < 2_048:
        pytest.skip(f"this system allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2_048), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        for name, data in (("a.docx", docx_bytes()), ("b.pdf", PdfPages().line(72, 99, "Wörter").data())):
            path = write(tmp_path / name, data)
            assert reader.load(raw(path)) == load(str(path), data)
        assert reader._process
        assert reader._process.stdout.fileno() > 1_023
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_process_that_cannot_start_is_no_fault_of_the_document(
    reader: DocumentReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation, "_PACKAGE", tmp_path)
    with pytest.raises(HeliographError, match=r"reads documents cannot be started \(exit code 1\)") as raised:
        reader.load(raw(write(tmp_path / "a.docx", docx_bytes())))
    assert not isinstance(raised.value, IngestError)


def test_process_knows_no_secrets(reader: DocumentReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIOGRAPH_CHAT__API_KEY", "sk-of-the-endpoint")
    monkeypatch.setenv("LD_PRELOAD", "./x.so")
    reader.load(raw(write(tmp_path / "a.docx", docx_bytes())))
    assert reader._process
    environment = Path(f"/proc/{reader._process.pid}/environ")
    if not environment.exists():
        pytest.skip("this system does not tell the environment of a process")
    names = {line.partition("=")[0] for line in environment.read_text().split("\0")}
    assert "PATH" in names
    assert not names & {"HELIOGRAPH_CHAT__API_KEY", "LD_PRELOAD"}


def test_close_ends_what_is_being_read(tmp_path: Path) -> None:
    reader = DocumentReader(Limits(timeout_seconds=60))
    good = write(tmp_path / "a.docx", docx_bytes())
    reader._process = isolation._start()
    os.kill(reader._process.pid, signal.SIGSTOP)
    failures: list[BaseException] = []

    def read() -> None:
        try:
            reader.load(raw(good))
        except IngestError as error:
            failures.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    # Before it is handed over, another process would be started for it.
    while not reader._served:
        time.sleep(0.01)
    reader.close()
    thread.join(10)
    assert not thread.is_alive()
    assert len(failures) == 1


@pytest.mark.skipif(os.uname().sysname != "Linux", reason="other systems do not limit memory")
def test_document_that_needs_too_much_memory_is_refused(tmp_path: Path) -> None:
    reader = DocumentReader(Limits(max_memory_bytes=400_000_000, max_compression_ratio=1e6, timeout_seconds=30))
    page = b"<html><body>" + b"<p>x" * 8_000_000
    with pytest.raises(IngestError, match=r"documents\.max_memory_bytes"):
        reader.load(raw(write(tmp_path / "big.html", page)))
    reader.close()


def test_missing_package_is_named_across_the_processes() -> None:
    error = MissingDependencyError("mammoth", "x")
    with pytest.raises(MissingDependencyError) as raised:
        isolation._reply_of({"missing": str(error)})
    assert str(raised.value) == str(error)


def test_defect_of_a_loader_is_told_with_its_traceback_across_the_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise IndexError("list index out of range")

    monkeypatch.setattr(worker, "load_document", fail)
    # It would hold for the process of the tests from here on, which then cannot start a thread.
    monkeypatch.setattr(worker, "_limit_memory", lambda _: None)
    header = {"name": "a.pdf", "mime_type": "", "charset": "", "limits": asdict(Limits())}
    with pytest.raises(IngestError, match=r"'a\.pdf'.*IndexError: list index out of range") as caught:
        isolation._reply_of(json.loads(worker._serve(json.dumps(header).encode(), b"")))
    assert "Traceback" in caught.value.traceback


def test_reader_may_be_told_to_use_no_process(tmp_path: Path) -> None:
    reader = DocumentReader(Limits(), isolate=False)
    assert reader.load(raw(write(tmp_path / "a.docx", docx_bytes()))).title == "Gateway manual"
    assert reader._process is None


def test_frames_come_back_as_they_went(tmp_path: Path) -> None:
    with (tmp_path / "frames").open("w+b") as file:
        write_frame(file, b"one")
        write_frame(file, b"")
        file.write(b"\0\0")
        file.seek(0)
        assert [read_frame(file), read_frame(file), read_frame(file)] == [b"one", b"", None]
