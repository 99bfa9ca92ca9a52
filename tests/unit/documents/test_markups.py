"""Sources of manuals in other markups become Markdown: their words, code and tables, and no directives."""

from __future__ import annotations

import pytest

from heliograph.documents.markups import MARKUPS

from .samples import load

_RST = """.. _pump-care:

Pump
====

.. toctree::
   :maxdepth: 2

   oil

See :ref:`the oil <oil>`, `the maker <https://p.example>`_ and ``pump -x``; |full| name. Run::

    Title
    -----
    pump --stop

.. |full| replace:: Pump Three

.. note:: Wear gloves.
   They are in *hall two*.

Care
----

.. code-block:: sh
   :linenos:

   pump --oil

.. image:: pump.png
   :alt: The pump

=====  ======
Part   Oil
=====  ======
Axle   thin
Gear   thick
       or warm
=====  ======

+------+-------+
| Key  | Does  |
+======+=======+
| F1   | stops |
|      | it    |
+------+-------+

.. list-table:: Seals
   :header-rows: 1

   * - Size
     - Price
   * - 3
     - 40

.. function:: stop(now)

   Stops it.

   :param now: at once

.. [1] Since 2020.
.. nobody reads this
..

  It is quoted.

.. autoclass:: Pump
"""
_RST_MARKDOWN = """# Pump

See `the oil`, [the maker](https://p.example) and `pump -x`; Pump Three name. Run:

```
Title
-----
pump --stop
```

Note: Wear gloves.
They are in *hall two*.

## Care

```sh
pump --oil
```

The pump

| Part | Oil |
| --- | --- |
| Axle | thin |
| Gear | thick or warm |

| Key | Does |
| --- | --- |
| F1 | stops it |

Seals

| Size | Price |
| --- | --- |
| 3 | 40 |

`stop(now)`

Stops it.

- param now: at once

[1] Since 2020.

  It is quoted.

`Pump`"""
_ADOC = """= Pump
:maker: Works Ltd
:toc:

// nobody reads this
By {maker}, see <<oil,the oil>> and https://p.example[the maker,window=_blank].

[[oil]]
== Oil

[source,sh]
----
pump --oil
----

.Seals
[cols="1,2",options="header"]
|===
|Size |Price

|3
|40 euros
|===

[WARNING]
====
Wear gloves.
====

* Axle
** thin
. Stop it

pump -x:: stops it
image::pump.png[The pump,300]
"""
_ADOC_MARKDOWN = """# Pump

By Works Ltd, see the oil and [the maker](https://p.example).

## Oil

```sh
pump --oil
```

Seals

| Size | Price |
| --- | --- |
| 3 | 40 euros |

Warning:

Wear gloves.

- Axle
   - thin
1. Stop it

- pump -x: stops it
The pump"""
_ORG = """#+TITLE: Pump
#+AUTHOR: Mira
* Care
:PROPERTIES:
:ID: 7
:END:
See [[file:oil.org][the oil]].
| Part | Oil |
|------+------|
| Axle | thin |
#+BEGIN_SRC sh
* pump
#+END_SRC
"""
_ORG_MARKDOWN = """# Pump

## Care
See the oil.
| Part | Oil |
|------|------|
| Axle | thin |
```sh
* pump
```"""
_TEX = r"""\documentclass{article}
\title{The \emph{Pump}}
\begin{document}
\maketitle
\section{Care}\label{s}
It costs 40\,\% more~\cite{a}. % nobody reads this
\begin{itemize}
  \item Use \textbf{thin \emph{oil}} at $x_1 = \frac{1}{2}$.
\end{itemize}
\begin{tabular}{l|l}
\hline Part & Oil \\ \hline Axle & \texttt{thin} \\
\end{tabular}
\begin{verbatim}
pump \stop
\end{verbatim}
\end{document}
"""
_TEX_MARKDOWN = r"""# The Pump

## Care
It costs 40\,% more [a].

- Use thin oil at $x_1 = \frac{1}{2}$.

| Part | Oil |
| --- | --- |
| Axle | `thin` |

```
pump \stop
```"""


@pytest.mark.parametrize(
    ("ending", "text", "markdown"),
    [
        (".rst", _RST, _RST_MARKDOWN),
        (".adoc", _ADOC, _ADOC_MARKDOWN),
        (".org", _ORG, _ORG_MARKDOWN),
        (".tex", _TEX, _TEX_MARKDOWN),
    ],
)
def test_markup_becomes_markdown(ending: str, text: str, markdown: str) -> None:
    document = load(f"a{ending}", text)
    lines = [line.rstrip() for line in document.text.split("\n")]
    squeezed = [line for place, line in enumerate(lines) if line or (place and lines[place - 1])]
    assert "\n".join(squeezed).strip() == markdown
    assert document.title == markdown.partition("\n")[0].removeprefix("# ")


def test_table_whose_cells_span_others_stays_as_it_is_drawn() -> None:
    drawn = "+---+---+\n| a | b |\n+---+---+\n| c     |\n+---+---+"
    assert f"```\n{drawn}\n```" in load("a.rst", f"{drawn}\n").text


_MARKS = ["====\n", "== ==\n", "+--+\n", "----\n", "|===\n", "{|\n", "``a ", "[[a", "\\begin{verbatim}", "::\n\n  "]


@pytest.mark.parametrize("ending", sorted(MARKUPS))
@pytest.mark.parametrize("piece", _MARKS)
def test_marks_without_end_lose_nothing_but_themselves(ending: str, piece: str) -> None:
    assert "the pump" in load(f"a{ending}", f"It is the pump.\n\n{piece * 50}").text


_LATEX_PAPER = r"""\documentclass{article}
\title{The \textbf{Pump \emph{X}}}
\author{Mira\thanks{Works \texttt{a}}}
\begin{abstract}It lasts.\end{abstract}
\begin{document}
\section{Use of \texttt{stop}}
See \url{http://a/b%20c} here. Use \verb|%s| to stop\footnote{See \emph{that}.} it.
\key{word}{DEL}
\begin{theorem}[Oil lemma] It is thin.\end{theorem}
\begin{figure}[htbp]\end{figure}
\begin{align}
a &= \frac{b}{c} \label{e}
\end{align}
\end{document}
"""


def test_latex_keeps_what_is_stated_before_it_words_of_unknown_commands_and_formulas() -> None:
    document = load("a.tex", _LATEX_PAPER)
    assert document.title == "The Pump X"
    assert document.text.startswith("# The Pump X\n\nMira (Works `a`)\n\nIt lasts.\n\n## Use of `stop`\n")
    assert (
        "See http://a/b%20c here. Use `%s` to stop (See that.) it.\nword DEL\n[Oil lemma] It is thin." in document.text
    )
    assert "$$\na &= \\frac{b}{c}\n$$" in document.text
    assert "htbp" not in document.text


def test_latex_whose_text_is_macros_is_read_whole() -> None:
    assert (
        "Stop the pump" in load("a.tex", f"\\newcommand\\a{{{'Stop the pump. ' * 2000}}}\\begin{{document}}\\a\n").text
    )


def test_table_with_rulers_ends_at_one_that_an_empty_line_follows() -> None:
    table = "== ==\na  b\nc  d\n== ==\n"
    text = load("a.rst", f"{table}\nThe pump.\n\n{table}\nThe oil.\n\n== ==\nIt never ends.\n").text
    assert text.count("| a | b |\n| --- | --- |\n| c | d |\n") == 2
    assert all(f"\n{said}\n" in text for said in ("The pump.", "The oil.", "== ==", "It never ends."))


def test_markdown_that_is_named_restructuredtext_keeps_its_tables() -> None:
    assert "| a | b |\n|---|---|\n| 1 | 2 |" in load("a.rst", "# Pump\n\n| a | b |\n|---|---|\n| 1 | 2 |\n").text


def test_underlined_titles_of_asciidoc_are_headings() -> None:
    document = load(
        "a.adoc", "Pump\n====\n:description: All of it.\n\nCare\n----\n\n----\nstop\n----\n\n[quote,Mira]\nIt is.\n"
    )
    assert document.title == "Pump"
    assert "All of it." in document.text
    assert "## Care\n\n```\nstop\n```\n\nMira:\n\nIt is." in document.text


def test_what_drawers_of_org_hold_stays_but_for_properties() -> None:
    text = load("a.org", "* Pump\n:PROPERTIES:\n:ID: 7\n:END:\n:LOGBOOK:\nIt leaks.\n:END:\n:Oil: thin\n").text
    assert text == "# Pump\nIt leaks.\n:Oil: thin\n"


_WITHOUT_END = [
    (".tex", "\\title["), (".tex", "\\a["), (".tex", "\\\\["), (".tex", "\\begin{lstlisting}[a"), (".rst", ":a"),
    (".mediawiki", "<!--"), (".mediawiki", "<pre "), (".mediawiki", "<ref "), (".mediawiki", "[http://a "),
    (".md", "`"), (".adoc", "link:"),
]  # fmt: skip


@pytest.mark.parametrize(("ending", "piece"), _WITHOUT_END)
def test_marks_without_end_take_no_more_time_than_their_length(ending: str, piece: str) -> None:
    assert "the pump" in load(f"a{ending}", f"It is the pump. {piece * 30_000}").text


_POD = """#!/usr/bin/perl

=head1 NAME

pump - keeps B<water> moving

=begin html

<img src="pump.png">

=end html

=head2 Options X<options>


=over 4

=item --oil I<FILE>

Oils it, see L<perlfaq7/"What for"> and L<the maker|https://p.example>.

It takes C<< E<lt>FILEE<gt> >> too.

=item *

Last.

=back

So it is done:

    pump --oil

    pump --stop

=cut

my $code = 1;
"""


def test_pod_becomes_markdown() -> None:
    document = load("pump.pod", _POD)
    assert document.text.split("\n\n") == [
        "# pump - keeps water moving",
        "## Options",
        '- `--oil FILE`: Oils it, see perlfaq7 > "What for" and the maker.',
        "  It takes `<FILE>` too.",
        "- Last.",
        "So it is done:",
        "```\npump --oil",
        "pump --stop\n```\n",
    ]
    assert document.metadata["mime_type"] == "text/plain"
    assert load("notes.pod", "No markup.").text == "No markup."


def test_items_of_pod_that_nothing_explains_are_kept_and_end_with_their_list() -> None:
    listed = "=over\n\n=item Carp\n\n=item Socket\n\n=back\n\n"
    marked = "=over\n\n=item * Fill it.\n\n=item 2. Start it.\n\n=back\n\n"
    text = f"=head1 Needs\n\n{listed}=head1 Use\n\n{marked}It runs.\n\n=over\n\n=item --last\n\n=cut\n\nmy $code;\n"
    blocks = ["# Needs", "- `Carp`", "- `Socket`", "# Use", "- Fill it.", "- Start it.", "It runs.", "- `--last`\n"]
    assert load("pump.pod", text).text.split("\n\n") == blocks


_INFO = """This is pump.info, produced by makeinfo version 6.8 from pump.texi.

START-INFO-DIR-ENTRY
* pump: (pump).                 Water.
END-INFO-DIR-ENTRY

\x1f
File: pump.info,  Node: Top,  Next: Options,  Up: (dir)

The Pump
********

This manual is for \u2018pump\u2019.

* Menu:

* Options::    What it takes.

\x1f
File: pump.info,  Node: Options,  Prev: Top,  Up: Top

1 Options
=========

Those are said below.  *Note Top:: for
more (*note the rest: Options.).

   They are few:

\u2018-o FILE\u2019
\u2018--oil=FILE\u2019
     Oils the pump,
     once.

   \u2022 Never twice.

 -- Function: stop (NOW)
     Stops it.

\x1f
Tag Table:
Node: Top\x7f123
"""


def test_info_becomes_markdown() -> None:
    document = load("pump.info", _INFO)
    assert document.title == "The Pump"
    assert document.text.split("\n\n") == [
        "# The Pump",
        "This manual is for `pump`.",
        "## 1 Options",
        "Those are said below. See Top for more (see the rest).",
        "They are few:",
        "- `-o FILE`, `--oil=FILE`: Oils the pump, once.",
        "- Never twice.",
        "- `Function: stop (NOW)`: Stops it.\n",
    ]
    assert load("theme.info", "name = Theme\n").text.strip() == "name = Theme"


def test_lists_of_pod_that_nest_without_end_are_not_indented_without_end() -> None:
    text = load("a.pod", "=head1 A\n\n" + "=over\n\n=item x\n\n" * 10_000 + "=head1 B\n\nend\n").text
    assert text.count("- `x`") == 10_000
    assert text.endswith("# B\n\nend\n")
    assert len(text) < 1_000_000
    assert load("a.pod", f"=head1 A\n\nC<< {' ' * 300_000}\n").text == "# A\n\nC<<\n"


def test_items_of_pod_that_say_nothing_more_keep_to_themselves() -> None:
    text = load(
        "a.pod", "=head1\tA\n\n=over\n\n=item x\n\n=back\n\nApart E<eacute>E<0xE9>.\n\n=over\n\n=item y\n\n=head1\nB\n"
    ).text
    assert text == "# A\n\n- `x`\n\nApart éé.\n\n- `y`\n\n# B\n"


def test_info_is_read_past_lines_of_marks_and_of_variables() -> None:
    node = "\x1f\nFile: a.info,  Node: Top\n\n"
    text = load(
        "a.info", f"{node}Title\n=====\n-----\n\nWrite:\n\nLocal Variables:\n\n{node}Next\n----\n\nMore words.\n"
    ).text
    assert text == "## Title\n\n-----\n\nWrite:\n\nLocal Variables:\n\n### Next\n\nMore words.\n"
