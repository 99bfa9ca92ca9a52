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
