"""XML that is a text, and XML that is not."""

from __future__ import annotations

import pytest

from .samples import load

DOCBOOK = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE article PUBLIC "-//OASIS//DTD DocBook XML V4.5//EN" "docbookx.dtd" [
  <!ENTITY tool "Zorblatt">
  <!ENTITY more SYSTEM "more.docbook">
]>
<article lang="de">
<articleinfo><title>Das Handbuch zu &tool;</title><author><firstname>Anna</firstname></author></articleinfo>
<!-- nothing -->
<para>&tool; liest <filename>a.conf</filename>&nbsp;und mehr.<indexterm><primary>conf</primary></indexterm></para>
<sect1><title>Menüs</title>
<para>Wählen Sie <menuchoice><guimenu>Datei</guimenu><guimenuitem>Neu</guimenuitem></menuchoice>.</para>
<variablelist><varlistentry><term><option>-f</option></term>
<listitem><para>Leert alles.</para></listitem></varlistentry></variablelist>
<sect2><title>Ports</title>
<informaltable><tgroup cols="2"><tbody>
<row><entry>a</entry><entry>1 &lt; 2</entry></row><row><entry>b</entry><entry>3</entry></row></tbody></tgroup>
</informaltable>
<screen>zorblatt -f
zorblatt -g</screen></sect2></sect1>
</article>
"""

MALLARD = """<page xmlns="http://projectmallard.org/1.0/" type="topic" id="net">
<info><link type="guide" xref="index"/><desc>Ein Proxy filtert.</desc><credit><name>Anna Weber</name></credit></info>
<title>Proxy festlegen</title>
<section><title>Schritte</title><steps><item><p>Öffnen Sie <gui>Netzwerk</gui>.</p></item><item>
<p>Wählen Sie.</p></item></steps>
<terms><item><title>Keine</title><p>Ohne Umweg.</p></item></terms></section>
</page>
"""


def test_docbook_becomes_markdown() -> None:
    loaded = load("manual.docbook", DOCBOOK)
    assert loaded.title == "Das Handbuch zu Zorblatt"
    assert loaded.metadata["language"] == "de"
    # The author's name, and a word of the index.
    assert loaded.metadata["omitted_characters"] == len("Anna") + len("conf")
    text = loaded.text
    assert "Zorblatt liest `a.conf` und mehr." in text.replace("\xa0", " ")
    assert "\n## Menüs\n" in text
    assert "\n### Ports\n" in text
    assert "Datei → Neu." in text
    assert "-f" in text
    assert "Leert alles." in text
    assert "| a | 1 < 2 |" in text.replace("\\<", "<")
    assert "```\nzorblatt -f\nzorblatt -g\n```" in text
    assert "Anna" not in text
    assert "conf\n" not in text


def test_what_only_marks_up_says_what_it_stands_for() -> None:
    """Keys that are pressed together, powers, the title of a list, links without words, names of entities."""
    text = load(
        "help.page",
        """<!DOCTYPE page><page xmlns="http://projectmallard.org/1.0/" id="keys">
<info><title type="sort">2</title><link type="guide" xref="index"/></info><title>Tasten</title>
<p>Drücken Sie <keyseq><key>Umschalt</key><key>Entf</key></keyseq> bei 2<sup>8</sup> Zeichen.</p>
<p>Lesen Sie <link xref="net-wireless"/>, &eg; heute&help.index;.</p>
<steps><title>So geht es:</title><item><p>Öffnen.</p></item><item><p>Schließen.</p></item></steps>
<p>Zum <menuchoice><shortcut><keycombo><keycap>Strg</keycap><keycap>O</keycap></keycombo></shortcut>
<guimenu>Datei</guimenu><guimenuitem>Öffnen</guimenuitem></menuchoice> siehe <xref linkend="more"/>.</p>
<section id="more"><title>Mehr dazu</title><p>Das ist alles, was es dazu zu sagen gibt.</p></section></page>""",
    ).text
    assert text.startswith("# Tasten\n")
    assert "Drücken Sie Umschalt+Entf bei 2^8 Zeichen." in text
    assert "Lesen Sie net-wireless, eg heute." in text
    assert "So geht es:\n\n1. Öffnen.\n2. Schließen.\n" in text
    assert "Zum Datei → Öffnen (Strg+O) siehe Mehr dazu." in text


def test_mallard_becomes_markdown() -> None:
    loaded = load("net.page", MALLARD)
    assert loaded.title == "Proxy festlegen"
    assert loaded.metadata["omitted_characters"] == len("AnnaWeber")
    assert loaded.text == (
        "# Proxy festlegen\n\nEin Proxy filtert.\n\n## Schritte\n\n1. Öffnen Sie Netzwerk.\n2. Wählen Sie.\n\n"
        "Keine: Ohne Umweg.\n"
    )


def test_page_of_hardly_any_words_beside_its_translators_is_a_text() -> None:
    names = "".join(f"<credit><name>Anna Weber {number}</name></credit>" for number in range(9))
    page = f'<page xmlns="http://projectmallard.org/1.0/"><info>{names}</info><title>Farben</title></page>'
    assert load("color.page", page).text == "# Farben\n"
    authors = "".join(f"<author><firstname>Anna {number}</firstname></author>" for number in range(9))
    book = f"<book><bookinfo><authorgroup>{authors}</authorgroup></bookinfo><para>Alles über die Farben.</para></book>"
    assert load("color.docbook", book).text == "Alles über die Farben.\n"


def test_names_of_other_files_say_nothing_and_what_a_comment_defines_is_not_read() -> None:
    book = DOCBOOK.replace("<!-- nothing -->", '&more;<!-- <!ENTITY who "<firstname>Bob</firstname>"> -->')
    text = load("book.docbook", book).text
    assert text.startswith("# Das Handbuch zu Zorblatt\n\nZorblatt liest")
    assert "more" not in text.partition("und mehr")[0]


@pytest.mark.parametrize(
    "xml",
    [
        '<chapter xmlns="http://docbook.org/ns/docbook"><legalnotice><para>All rights.</para></legalnotice></chapter>',
        "<config><port>80</port><host>a</host></config>",
        "<article><para>broken</article>",
        "<!DOCTYPE a [<!ENTITY b 'c'>]><!DOCTYPE a [<!ENTITY d '&b;&b;'>]><article><para>&d;</para></article>",
        "<article><para>" + "<a>" * 100_000 + "deep" + "</a>" * 100_000 + "</para></article>",
    ],
)
def test_other_xml_is_code(xml: str) -> None:
    loaded = load("data.xml", xml)
    assert loaded.text.startswith("# data.xml\n\n```xml\n")
    assert loaded.metadata["programming_language"] == "xml"
