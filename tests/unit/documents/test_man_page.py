"""Sources of manual pages."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from heliograph.documents.base import Limits, RawDocument
from heliograph.documents.registry import is_read, load_document
from heliograph.documents.sources import find_files
from heliograph.errors import IngestError

MAN = r"""'\" t
.\" A comment.
.ig \"-*- nroff -*-
Not shown.
..
.de Zz \" A macro.
.SH NOT SHOWN
..
.if t .ds Xx printer
.ie n \{\
.ds Xx terminal
.\}
.el \{\
.ds Xx printer
.\}
.TH QUEUE 8 "2024-05-01" "1.2" "Manual"
.SH NAME
queue \- looks after the queue on a \*(Xx
.SH "WHAT IT DOES"
It \fBwatches\fR the queue,
and \(lqsends\(rq what waits in
.IR /var/spool ,
see
.BR mail (1).
.PP
Fran\(,cois wrote 1\ kB\&.
.SS Options
.TP
.BR \-f ", " \-\-flush
Flush
the queue.
.TP
.if !'one'other' .B \-q
Be quiet.
.RS
.IP \(bu 2
Not at all.
.IP \(bu
Always.
.RE
.QW kept .
.IP "\-v" 4
.nf
queue \-v | sort
  kept \e n
.fi
.TS
tab(;) allbox;
l l
l l.
Code;Meaning
0;T{
All
went well.
T}
.TE
.so man1/other.1
"""
MDOC = r""".Dd May 1, 2024
.Dt SSHX 1
.Os
.Sh NAME
.Nm sshx
.Nd a remote shell
.Sh SYNOPSIS
.Nm sshx
.Op Fl aq
.Op Fl p Ar port
.Nm
.Fl V
.Sh DESCRIPTION
.Nm
listens at port 22, see
.Xr sshxd 8 .
.Bl -tag -width x
.It Fl p Ar port
Connects to
.Ar port ;
the default is
.Dq 22 .
.It Ev HOME
The home directory.
.Bl -bullet
.It
Inner.
.El
.El
.Bd -literal
sshx -p 2222 host
.Ed
"""


def load(name: str, data: bytes | str, limits: Limits | None = None) -> str:
    raw = RawDocument(name, data.encode() if isinstance(data, str) else data)
    return load_document(raw, limits or Limits()).text


def test_page_of_man_becomes_markdown() -> None:
    document = load_document(RawDocument("queue.8", MAN.encode()), Limits())
    assert document.title == "queue(8)"
    assert document.text.split("\n\n") == [
        "# queue(8)",
        "## NAME",
        "queue - looks after the queue on a terminal",
        "## WHAT IT DOES",
        "It watches the queue, and “sends” what waits in /var/spool, see mail(1).",
        "François wrote 1 kB.",
        "### Options",
        "- `-f, --flush`: Flush the queue.",
        "- `-q`: Be quiet.",
        "  - Not at all.",
        "  - Always.",
        "“kept”.",
        "- `-v`",
        "```\nqueue -v | sort\n  kept \\ n\n```",
        "| Code | Meaning |\n| --- | --- |\n| 0 | All went well. |",
        "See man1/other.1.\n",
    ]


def test_page_of_mdoc_becomes_markdown() -> None:
    assert load("sshx.1", MDOC).split("\n\n") == [
        "# sshx(1)",
        "## NAME",
        "sshx — a remote shell",
        "## SYNOPSIS",
        "sshx [-aq] [-p port]",
        "sshx -V",
        "## DESCRIPTION",
        "sshx listens at port 22, see sshxd(8).",
        "- `-p port`: Connects to port; the default is “22”.",
        "- `HOME`: The home directory.",
        "  - Inner.",
        "```\nsshx -p 2222 host\n```\n",
    ]


def test_links_stand_behind_their_words_and_what_follows_stands_behind_them() -> None:
    page = (
        ".TH A 1\n.SH LICENCE\nIt is under the\n.UR https://a.example/gpl\nGPL 3\n.UE . Or any later.\n"
        "Mail to\n.MT a@b.example\n.ME .\n.URL https://c.example Here ,\n.UR https://d.example\nnever closed\n"
    )
    assert load("a.1", page).endswith(
        "## LICENCE\n\nIt is under the GPL 3 <https://a.example/gpl>. Or any later. Mail to <a@b.example>. "
        "Here <https://c.example>, never closed <https://d.example>\n"
    )


@pytest.mark.parametrize("name", ["open.3pm", "open.text", "https://example.org/open"])
def test_page_is_told_by_how_it_begins(name: str) -> None:
    preamble = '.\\" Automatically generated\n.de Sp\n.if t .sp .5v\n..\n'
    assert (
        load(name, f"{preamble}.TH OPEN 3pm\n.SH NAME\nopen \\- opens\n") == "# open(3pm)\n\n## NAME\n\nopen - opens\n"
    )
    assert is_read("open.3pm.gz")
    assert is_read("time_t.3type.gz")


def test_term_above_its_indented_explanation_is_one_item_with_what_else_is_said_of_it() -> None:
    page = (
        ".TH A 1\n.SH OPTIONS\n.sp\n\\fB\\-d\\fP, \\fB\\-\\-udp\\fP\n.RS 4\nUses datagrams.\n.sp\nSee B.\n.RE\n"
        ".PP\n\\-i\n.RS 4\n.sp\n.RS 4\n"
        ".ie n \\{\\\n\\h'-04'\\(bu\\h'+03'\\c\n.\\}\n.el \\{\\\n.IP \\(bu 2\n.\\}\nOne\n.RE\n.RE\n"
        ".PP\nIt reads as in\nthis example:\n.RS 4\nfoo\n.RE\n"
    )
    assert load("a.1", page).split("\n\n")[1:] == [
        "## OPTIONS",
        "- `-d, --udp`: Uses datagrams.",
        "  See B.",
        "- `-i`",
        "  - One",
        "It reads as in this example:",
        "foo\n",
    ]


def test_every_name_of_an_option_is_written_with_its_dashes() -> None:
    page = (
        ".Dd May 1, 2024\n.Dt A 8\n.Os\n.Sh OPTIONS\n.Bl -tag\n.It Fl c , -check\nChecks a list with\n.Pq Ql :\\&\n"
        "in it.\n.It Fl f Ar file , Fl -file Ns = Ns Ar file\nReads (\n.Po\n.Em 15\nlines by\n.Fl n\n.Pc .\n.El\n"
    )
    assert load("a.8", page).split("\n\n")[2:] == [
        "- `-c, --check`: Checks a list with (‘:’) in it.",
        "- `-f file, --file=file`: Reads ( (15 lines by -n).\n",
    ]


def test_chinese_lines_are_joined_without_a_blank() -> None:
    text = load("tar.1", ".TH TAR 1\n.SH 描述\n它储存在磁盘中，\n也可以存为\ntar 文件。\n")
    assert text.endswith("它储存在磁盘中，也可以存为 tar 文件。\n")


@pytest.mark.parametrize(
    "text", ["Notes of the first day.\n.TH is a macro.\n", "", ".\n", "'\\\" t\n" * 1000, ".de x\n" * 1000]
)
def test_other_text_under_such_a_name_stays_as_it_is(text: str) -> None:
    assert load("notes.1", text).strip() == text.strip()


@pytest.mark.parametrize(
    "macros", [".TP\n", ".RS\n.RE\n.RE\n", ".ie n \\{\n", ".TS\n", ".de\n", ".if\n", ".It\n.El\n", ".Fl Ns\n", ".Xr\n"]
)
def test_broken_page_is_read_as_far_as_it_goes(macros: str) -> None:
    assert load("x.1", f".TH X 1\n.SH NAME\nx \\- broken\n{macros}").startswith("# x(1)\n\n## NAME\n\nx - broken")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_file_is_read_as_what_it_holds(pack: Callable[[bytes], bytes]) -> None:
    document = load_document(RawDocument("a/queue.8.gz", pack(MAN.encode())), Limits())
    assert (document.source, document.title) == ("a/queue.8.gz", "queue(8)")
    page = b"<html><body><h1>Pumps</h1><p>The pump runs all night, and it stops at six.</p></body></html>"
    assert "The pump runs" in load("page.xz", pack(page))


def test_hostile_page_is_read_to_its_end() -> None:
    deep = load("x.1", ".TH X 1\n.SH A\n" + "term\n.RS 4\n" * 20_000 + "told\n.SH B\nend\n")
    assert len(deep) < 2_000_000
    assert "told\n\n## B\n\nend" in deep
    assert load("x.1", ".TH X 1\n" + "\\[a" * 50_000 + "\n.SH B\nend\n").endswith("## B\n\nend\n")
    assert "left open" in load("x.1", ".TH X 1\n.TS\nl l.\none\tT{\nleft open\n")
    assert "[-v | --long=x]" in load("x.1", ".Dd x\n.Dt X 1\n.Sh A\n.Op Fl v | Fl -long Ns = Ns Ar x\n")


def test_page_that_nests_without_end_is_refused() -> None:
    with pytest.raises(IngestError, match="nests too deeply"):
        load("x.1", ".TH X 1\n" + ".if n " * 20_000 + "x\n")


def test_compressed_file_is_bounded_and_no_archive() -> None:
    bomb = gzip.compress(b"a" * 3_000_000)
    with pytest.raises(IngestError, match=r"unpacks to .* times its size"):
        load("a.txt.gz", bomb)
    with pytest.raises(IngestError, match="max_unpacked_bytes"):
        load("a.txt.gz", bomb, Limits(max_unpacked_bytes=1000))
    for broken in (gzip.compress(b"some words" * 50)[:-20], b"BZh91AY&SY", b"\xfd7zXZ\x00\x00"):
        with pytest.raises(IngestError, match="cut off or broken"):
            load("a.txt.gz", broken)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.addfile(tarfile.TarInfo("a.txt"))
    for nested in (packed.getvalue(), gzip.compress(bomb)):
        with pytest.raises(IngestError, match="is an archive"):
            load("a.tar.gz", nested)


def test_folder_gives_compressed_files_of_known_kinds(tmp_path: Path) -> None:
    for name in ("a.txt.gz", "b.tar.gz", "c.gz", "tar.1.gz", "d.pdf.xz", "e.1"):
        (tmp_path / name).write_bytes(b"x")
    assert [path.name for path in find_files([tmp_path])] == ["a.txt.gz", "d.pdf.xz", "e.1", "tar.1.gz"]
    assert is_read("guide.PDF.GZ")
    assert not is_read(".gz")
