from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.documents.web_page import html_to_markdown

from .samples import SENTENCE, load

PAGE = f"""<!DOCTYPE html><html lang="en-GB"><head><title>Gateways | Example Corp</title>
<meta name="author" content="Ada Noll"><meta property="article:published_time" content="2024-05-01">
<style>p {{color: red}}</style></head><body class="has-sidebar">
<header><a href="/">Example Corp</a></header>
<nav><ul><li><a href="/a">Products</a></li><li><a href="/b">Prices</a></li></ul></nav>
<div class="cookie-banner">We use cookies. <button>Accept</button></div>
<div class="content"><h1>Gateways<a class="headerlink" href="#gateways">¶</a></h1>
<p>{SENTENCE} See <a href="/tls">the chapter on TLS</a>.</p>
<h2 id="ports">Ports</h2>
<table><thead><tr><th>Name</th><th>Port</th></tr></thead><tbody><tr><td>MQTT</td><td>8883</td></tr></tbody></table>
<pre><code class="language-python">def f(x):
    return x  # two
</code></pre>
<ul><li>One<ul><li>Inner</li></ul></li><li>Two</li></ul>
<p hidden>not shown</p><script>alert(1)</script>
<div class="related-posts"><a href="/x">Read this too</a></div></div>
<aside>Advertisement</aside><footer>Imprint 2024</footer></body></html>"""

TEXT = f"""# Gateways

{SENTENCE} See the chapter on TLS.

## Ports

| Name | Port |
| --- | --- |
| MQTT | 8883 |

```python
def f(x):
    return x  # two
```

- One
  - Inner
- Two
"""


def test_page_is_its_content_without_navigation() -> None:
    document = load("page.html", PAGE)
    assert document.text == TEXT
    assert document.title == "Gateways"
    assert document.metadata == {
        "mime_type": "text/html",
        "language": "en",
        "author": "Ada Noll",
        "created_at": "2024-05-01",
        "omitted_characters": len("ExampleCorpProductsPricesWeusecookies.AcceptnotshownReadthistoo")
        + len("AdvertisementImprint2024"),
    }


NAMES = (
    *("sidebar", "related-work", "comments-on-method", "comments", "toc", "menu", "banner", "share", "promo", "footer"),
    *("navigation", "pager", "cookies", "widget", "skip", "note admonition", "popup", "respond", "body", ""),
)
_SENTENCES = st.integers(0, 10**6).map(lambda number: f"Part {number} of the gateway answers before anybody asks it.")
_BLOCKS = st.recursive(
    st.builds("<p>{}</p>".format, _SENTENCES) | st.builds("<pre>gateway --part {}</pre>".format, st.integers(0, 10**6)),
    lambda inner: st.builds(
        "<{0} {1}='{2}'>{3}{4}</{0}>".format,
        st.sampled_from(("div", "section", "article", "ul", "blockquote")),
        st.sampled_from(("class", "id")),
        st.sampled_from(NAMES),
        st.sampled_from(("", "<h2>Part</h2>", "<h1>Gateways</h1>")),
        st.lists(inner, min_size=1, max_size=3).map("".join),
    ),
    max_leaves=12,
)


@given(blocks=st.lists(_BLOCKS, min_size=1, max_size=5).map("".join), named=st.sampled_from(NAMES))
def test_sentences_stay_whatever_their_blocks_are_called(blocks: str, named: str) -> None:
    page = f"<html><head><title>Gateways</title></head><body class='{named}'>{blocks}</body></html>"
    text = load("a.html", page).text
    for sentence in re.findall(r"(?<=<p>).*?(?=</p>)|(?<=<pre>).*?(?=</pre>)", blocks):
        assert sentence in text


@pytest.mark.parametrize("name", ["sidebar", "related-work", "comments-on-method", "toc", "banner", "widget"])
def test_named_block_beside_the_content_stays_with_its_sentences(name: str) -> None:
    prose = "".join(f"<p>{SENTENCE} It does so {count} times.</p>" for count in range(40))
    page = f"<body><div class=text><h1>Gateways</h1>{prose}</div><div class='{name}'><p>{SENTENCE}</p></div></body>"
    assert load("a.html", page).text.endswith(f"{SENTENCE}\n")


PROSE = f"<h1>Gateways</h1><p>{SENTENCE}</p><h2>Brokers</h2><p>{SENTENCE}</p>"
LINKS = "".join(f"<li><a href='{name}.html'>The part on {name}</a></li>" for name in ("cables", "brokers", "antennas"))


@pytest.mark.parametrize(
    "page",
    [
        # A DocBook chapter: bars in tables, titles of the pages around in plain cells, pictures for words.
        "<div class=navheader><table><tr><th colspan=3>2. Gateways</th></tr><tr><td><a accesskey=p href=1.html>Prev</a>"
        "</td><th>Part I. Radio</th><td><a accesskey=n href=3.html>Next</a></td></tr></table></div>"
        "<div class=chapter>{prose}</div><div class=navfooter><table><tr><td><a accesskey=p href=1.html>Prev</a></td>"
        "<td><a accesskey=n href=3.html>Next</a></td></tr><tr><td>1. What you should know before you begin with all"
        " of this work.</td><td>3. Cables</td></tr></table></div>",
        # Publican: pictures that are links, a bar in Chinese.
        "<p id=title><a href=/><img alt='Product Site'></a><a href=i.html><img alt='Documentation Site'></a></p>"
        "<ul class=docnav><li><a href=1.html><strong>上一页</strong></a></li><li>管理员手册</li><li><a href=3.html>"
        "<strong>下一页</strong></a></li></ul><div class=section>{prose}</div><ul class=docnav><li><a href=1.html>"
        "<strong>上一页</strong>第 1 章</a></li></ul>",
        # Texinfo: a bar within the block of the content; LinuxDoc: links in no block at all.
        "<div class=section><div class=header><p>Next: <a href=3.html rel=next>Cables</a>, Up: <a href=i.html rel=up>"
        "Radio</a> &nbsp; [<a href=toc.html rel=contents>Contents</a>]</p></div>{prose}</div>",
        "Next <a href=1.html>Previous</a> <a href=toc.html>Contents</a><hr>{prose}<hr>Next <a href=1.html>Previous</a>",
        # Menus in blocks named as blocks of text are, or not at all.
        "<div><ul>{links}</ul></div><div class=text>{prose}</div><div class=column><h3>More</h3><ul>{links}</ul></div>",
        "<div class=page><div class=topNav><ul>{links}</ul></div><div class=text>{prose}</div></div>",
        "<main>{prose}</main><div role=contentinfo>Written by nobody, who kept all rights to himself.</div>",
        "<div>{prose}</div><div>© 2020 Nobody. All rights to this page are kept by its author.</div>",
        "<div><ul><li><a href=#g>Gateways</a></li><li><a href=#b>Brokers</a></li><li><a href=#c>Cables</a></li></ul>"
        "{prose}</div>",
        "<div>{prose}</div><aside><form>Your address <input> <button>Subscribe</button></form></aside>",
        "<div>{prose}<p>Available in <a hreflang=de href=de>Deutsch</a>, <a hreflang=zh href=zh>中文</a></p></div>",
    ],
)
def test_furniture_goes_by_links_and_place(page: str) -> None:
    head = "<html><head><title>2. Gateways</title></head><body>"
    document = load("a.html", head + page.format(prose=PROSE, links=LINKS) + "</body></html>")
    assert document.text == f"# Gateways\n\n{SENTENCE}\n\n## Brokers\n\n{SENTENCE}\n"
    assert document.metadata["omitted_characters"] > 0


@pytest.mark.parametrize(
    ("page", "kept"),
    [
        # Links under a heading of the content are content, and so are lists of links with words, and definitions.
        (
            f"<div>{PROSE}<h2>See also</h2><p><a href=1>cables(7)</a>, <a href=2>antennas(7)</a></p></div>",
            "antennas(7)",
        ),
        (f"<div>{PROSE}<ul>{LINKS}</ul><p>{SENTENCE}</p></div>", "antennas"),
        (f"<main>{PROSE}<aside class=note><p>{SENTENCE} Twice.</p></aside></main>", "Twice."),
        (f"<article>{PROSE}<footer><p>{SENTENCE} Thrice.</p></footer></article>", "Thrice."),
        (f"<header><h1>Radio</h1></header><div><p>{SENTENCE}</p></div>", "# Radio"),
        (f"<div class=header><div class=title>Radio links</div></div><div><p>{SENTENCE}</p></div>", "Radio links"),
        # A page of an index holds nothing but links.
        (f"<div class=menu>Menu</div><h1>Index</h1><ul>{LINKS}</ul>", "antennas"),
        (
            f"<h2 id=menu>Menu</h2><section id=menu-2><h3>Menu 2</h3><ul>{LINKS}</ul></section><p>{SENTENCE}</p>",
            "cables",
        ),
        # Notes behind the content are part of it, also where they only say what is quoted.
        (
            f"<div>{PROSE}</div><table class='docutils footnote'><tr><td><a href='#r1'>[1]</a></td>"
            "<td><a href='http://a.example'>PEP 256</a></td></tr></table>",
            "PEP 256",
        ),
        (
            f"<div>{PROSE}</div><div class=footnotes-segment><h5><a href='#d'>(1)</a></h5>"
            "<p>See <a href='http://a.example'>http://a.example</a>.</p></div>",
            "See http://a.example.",
        ),
        ("<table><caption>Ports</caption><tr><td>MQTT</td></tr></table>", "Ports"),
        ("<ul>Loose words<li>One</li></ul><dl>More of them<dt>Term</dt><dd>Meaning</dd></dl>", "Loose words"),
        ("<dl>More of them<dt>Term</dt><dd>Meaning</dd></dl>", "More of them"),
        ("<h2><button>What does it cost?</button></h2><p>Nothing.</p>", "## What does it cost?"),
    ],
)
def test_content_that_looks_like_furniture_stays(page: str, kept: str) -> None:
    assert kept in load("a.html", f"<html><body>{page}</body></html>").text


def test_marks_beside_headings_and_signatures_go() -> None:
    page = (
        f"<main><h2>Ports<a href='#p'>¶</a> <span>[<a href='?edit'>edit</a>]</span></h2><p>{SENTENCE}</p>"
        "<dl><dt>open(port) <a href='s.html'><span>[source]</span></a><a href='#o'>¶</a></dt><dd>Opens it.</dd></dl>"
        "<p>Press <a href='e'>Edit</a> to go on.</p></main>"
    )
    assert load("a.html", page).text == f"## Ports\n\n{SENTENCE}\n\nopen(port): Opens it.\n\nPress Edit to go on.\n"


def test_page_under_another_name_is_read_as_one() -> None:
    assert load("page.txt", PAGE).text == TEXT


def test_page_that_is_all_boilerplate_by_name_is_taken_whole() -> None:
    page = f"<html><body><div class='menu'><div class='sidebar'><p>{SENTENCE}</p></div></div></body></html>"
    assert load("a.html", page).text == SENTENCE + "\n"


def test_declared_charset_is_followed() -> None:
    page = '<html><head><meta charset="windows-1251"></head><body><p>Привет, мир</p></body></html>'
    assert load("a.html", page.encode("cp1251")).text == "Привет, мир\n"
    assert load("a.html", "<html><p>Grüße</p>".encode("latin-1"), charset="iso-8859-1").text == "Grüße\n"


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<p>a<br>b</p>", "a\nb"),
        ("<p>use <code>x  y</code> <b>now</b></p>", "use `x y` now"),
        ("<ol start=3><li>c<li>d</ol>", "3. c\n4. d"),
        ("<blockquote><p>said</p><p>so</p></blockquote>", "> said\n>\n> so"),
        ("<p># no heading</p>", "\\# no heading"),
        ("<pre>```\nx</pre>", "````\n```\nx\n````"),
        ("<dl><dt>Term</dt><dd>Meaning</dd></dl>", "Term: Meaning"),
        ("<a href=x><h2>Card</h2><p>text</p></a>", "## Card\n\ntext"),
        ("<p>a<img src=x alt='a lamp'>b</p>", "aa lampb"),
        ("<p>see<img src=pic/flat-design.png alt=flat-design> <img src=b.png alt=pic/b.png></p>", "see"),
        ("<h2><img src=i.png alt=Info> Why</h2>", "## Why"),
        ("<div><p>Figure 1. The menu</p><div><img src=a.png alt='The  menu'></div></div>", "Figure 1. The menu"),
        ("<p>Save by <img src=a.png alt=Save></p>", "Save by Save"),
        ("<h2>One</h2><div class='note'><h3>Note</h3><p>As root.</p></div><p>Go on.</p>",
         "## One\n\nNote\n\nAs root.\n\nGo on."),
        ("<p>[<code>:</code><code>level</code>] <code>a</code> <code>b</code></p>", "[`:level`] `a` `b`"),
        ("<p>2<sup>8</sup>-1, (a+b)<sup>n+1</sup>, m<sup>2</sup>, 1<sup>st</sup>, 1<sup>o</sup>, X<sup>TM</sup></p>",
         "2^8-1, (a+b)^(n+1), m^2, 1st, 1o, XTM"),
        ("<p>so.<sup>2</sup> Right<sup><a href=#n>3</a></sup>; theorem<sup>4</sup>; cited<sup>[5]</sup></p>",
         "so.[2] Right[3]; theorem[4]; cited[5]"),
        ("<ol><li>a</li><ul><li>b</li><li>c</li></ul><li>d</li></ol>", "1. a\n   - b\n   - c\n2. d"),
        ("<p>1<p>One.<p>2<p>Two.<p>3<p>Three.<p>4<p>Four.<p>5<p>Five.",
         "One.\n\nTwo.\n\nThree.\n\nFour.\n\nFive."),
        ("<p>4<p>4<p>2<p>7<p>9", "4\n\n4\n\n2\n\n7\n\n9"),
        ("<pre><span class=boring>fn main() {\n</span>let x = 1;\n<span class=boring>}</span></pre>",
         "```\nlet x = 1;\n```"),
        ("<table><tr><td><h2>Old page</h2><p>laid out</p></td><td>by tables</td></tr></table>",
         "## Old page\n\nlaid out\n\nby tables"),
        ("<table><tr><th>a</th><th colspan=2>b</th></tr><tr><td rowspan=2>1</td><td>2</td><td>3</td></tr>"
         "<tr><td>4</td><td>5</td></tr></table>",
         "| a | b |  |\n| --- | --- | --- |\n| 1 | 2 | 3 |\n| 1 | 4 | 5 |"),
        ("", ""),
    ],
)  # fmt: skip
def test_html_becomes_markdown(html: str, markdown: str) -> None:
    assert html_to_markdown(html) == markdown


def test_nesting_without_end_is_read_all_the_same() -> None:
    deep = 20_000
    assert "core" in html_to_markdown("<div>" * deep + "core" + "</div>" * deep)
    assert "core" in html_to_markdown("<b>" * 2_000 + "core")
    assert "core" in html_to_markdown("<ul><li>" * 1_000 + "core")
    assert SENTENCE in load("a.html", "<div>" * deep + f"<p>{SENTENCE}</p>").text


def test_spans_beyond_reason_cost_nothing() -> None:
    table = "<table><tr><th colspan=999999999>a</th></tr><tr><td rowspan=99999999>b</td><td>c</td></tr></table>"
    assert len(html_to_markdown(table)) < 20_000


def test_of_words_for_each_system_the_default_is_read() -> None:
    key = (
        '<span class="switch"><span hidden="true" class="MAC">Command</span><span hidden="true">Ctrl</span></span>'
        "<span><span hidden>secret</span></span><span>seen<span hidden>one</span><span hidden>other</span></span>"
    )
    text = load("page.html", f"<body><p>Press {key}+F to find a word in the text of this page.</p></body>").text
    assert "Press Ctrl" in text
    assert not any(word in text for word in ("Command", "secret", "one", "other"))


def _text(body: str) -> str:
    return load("a.html", f"<html><head><title>Lamps</title></head><body>{body}</body></html>").text


def test_blocks_whose_class_calls_them_titles_are_headings_where_there_are_no_others() -> None:
    body = (
        '<div class="page-header-title">Lamps</div>'
        '<div class="section1"><div class="section1-header"><div class="section1-number">1</div>'
        f'<div class="section1-title">Wicks</div></div><div class="text">{SENTENCE}</div></div>'
        f'<div class="section2-title">Oil</div><p>{SENTENCE}</p>'
        '<ul><li><div class="title">No heading</div></li></ul>'
    )
    assert _text(body) == (f"# Lamps\n\n## 1 Wicks\n\n{SENTENCE}\n\n### Oil\n\n{SENTENCE}\n\n- No heading\n")
    assert "## Wicks" not in _text(f'<h2>Lamps</h2><p>{SENTENCE}</p><p class="title">Wicks</p><p>{SENTENCE}</p>')


def test_short_paragraphs_that_are_bold_or_large_are_headings_where_there_are_no_others() -> None:
    body = f'<p><b>Wicks</b></p><p>{SENTENCE}</p><p><font size="+2">What is oil?</font></p><p>{SENTENCE} <b>No.</b></p>'
    assert _text(body) == f"## Wicks\n\n{SENTENCE}\n\n## What is oil?\n\n{SENTENCE} No.\n"
    assert _text(f"<p><b>Beware</b></p><p>{SENTENCE}</p>").startswith("Beware")


def test_links_to_questions_of_a_page_stay_where_nothing_repeats_them() -> None:
    questions = ("How is a wick cut?", "What does oil cost?", "Who keeps the lamp?")
    listed = "".join(f'<li><a href="#q{n}">{text}</a></li>' for n, text in enumerate(questions))
    answers = "".join(f'<p id="q{n}">{SENTENCE}</p>' for n in range(3))
    assert all(f"- {text}" in _text(f"<h1>FAQ</h1><ul>{listed}</ul>{answers}") for text in questions)
    repeated = "".join(f'<h2 id="q{n}">{text}</h2><p>{SENTENCE}</p>' for n, text in enumerate(questions))
    assert "- How" not in _text(f"<h1>FAQ</h1><ul>{listed}</ul>{repeated}")


def test_what_stands_between_items_belongs_to_the_one_above() -> None:
    text = html_to_markdown(
        "<ul>Take <b>these</b> tools:<li>scissors</li>or a <i>knife</i><li>oil</li><p>Not water.</p></ul>"
    )
    assert text == "Take these tools:\n\n- scissors\n\n  or a knife\n- oil\n\n  Not water."


def test_foot_of_a_page_goes_with_its_bar_of_pictures() -> None:
    bar = "".join(f'<a href="{n}.html"><img src="{n}.gif" alt="{n}"></a> ' for n in ("Contents", "Previous", "Next"))
    page = f'<h1>Wicks</h1><p>{SENTENCE}</p><hr><div>{bar}</div><div>Printed for <a href="/">the guild</a></div>'
    assert _text(page) == f"# Wicks\n\n{SENTENCE}\n"
    link = '<a href="/">Help us to write this manual</a>'
    foot = f'<div id="footer"><p>For lamps of the second kind.</p><p>{link}.</p></div>'
    assert _text(f"<h1>Wicks</h1><p>{SENTENCE}</p>{foot}") == f"# Wicks\n\n{SENTENCE}\n"


def test_names_of_fields_above_the_text_stay() -> None:
    rows = "".join(
        f"<tr><th>{name}:</th><td>{said}</td></tr>" for name, said in (("Author", "Ada"), ("Status", "Final"))
    )
    text = _text(
        f'<table>{rows}</table><div class="section"><h1>Wicks</h1><p>{SENTENCE}</p><h1>Oil</h1><p>{SENTENCE}</p></div>'
    )
    assert text.startswith("| Author: | Ada |\n| --- | --- |\n| Status: | Final |\n")


def test_numbers_of_paragraphs_with_letters_are_left_out() -> None:
    numbers = ("1", "2/3", "2.a", "2.b/1", "3")
    text = _text("<h1>Wicks</h1>" + "".join(f"<div>{number}</div><p>{SENTENCE}</p>" for number in numbers))
    assert text == "# Wicks\n\n" + "\n\n".join([SENTENCE] * 5) + "\n"


def test_broken_lines_of_chinese_are_joined() -> None:
    assert html_to_markdown("<p>灯塔的灯\n  芯和 lamp\n油</p>") == "灯塔的灯芯和 lamp 油"


def test_lists_below_a_bar_of_links_stay() -> None:
    bar = '<div><a href="p.html">Previous</a> <a href="n.html">Next</a></div>'
    short = "<ul><li>abs: short</li><li>cut: shorter</li></ul>"
    assert "cut: shorter" in _text(f"<h1>Index of commands</h1>{bar}{short}")
    assert "cut: shorter" in _text(f"<h1>Wicks</h1><p>{SENTENCE}</p>{bar}<h2>Options</h2>{short}")
    assert "cut: shorter" in _text(f"<h1>Wicks</h1><p>{SENTENCE}</p>{bar}<p>Written by Ada</p>{short}")


def test_sentences_stay_whatever_their_block_is_called() -> None:
    foot = f'<div class="footer"><p>{SENTENCE} Call <a href="tel:1">555-1</a>.</p></div>'
    assert "555-1" in _text(f"<h1>Wicks</h1><p>{SENTENCE}</p>{foot}")


def test_ratings_are_no_margin_numbers() -> None:
    page = "".join(f"<div>{number}/5</div><p>{SENTENCE}</p>" for number in (5, 5, 4, 5, 5))
    assert _text(f"<h1>Wicks</h1>{page}").count("/5") == 5


def test_captions_are_no_headings() -> None:
    page = "".join(f'<p class="title">Figure {n}. Wick</p><p>{SENTENCE}</p>' for n in (1, 2))
    assert "# Figure" not in _text(f"<h1>Wicks</h1>{page}")


def test_page_that_is_one_block_of_written_text_is_no_code() -> None:
    written = "The fold level is computed from the indent of the line,\nand a sequence of lines forms a fold.\n\n"
    page = "<html><body><pre>INDENT\n\n{}</pre></body></html>"
    text = load("fold.html", page.format(written * 20 + "# Not a heading, but a comment in the text.")).text
    assert text.startswith("INDENT\n\nThe fold level is")
    assert "```" not in text
    assert "\n\n\\# Not a heading" in text
    code = "for line in lines:\n    print(line)  # one\n" * 60
    for inside in (code, written * 20 + '<span class="k">for</span>'):
        assert load("fold.html", page.format(inside)).text.startswith("```")
    assert "```" in load("fold.html", page.format(written * 20).replace("<pre>", f"<p>{written * 20}</p><pre>")).text


def test_list_behind_what_opens_a_menu_is_text() -> None:
    menu = '<a data-toggle="dropdown">Lamps</a><ul class="dropdown-menu"><li>Go to lamps</li></ul>'
    text = load("a.html", f"<html><body><h1>Lamps</h1>{menu}<p>They burn.</p><ul><li>Oil</li></ul></body></html>").text
    assert "- Oil" in text
    assert "Go to lamps" not in text


def test_written_blocks_of_a_page_that_is_set_with_a_fixed_width_are_text_and_its_examples_code() -> None:
    written = (
        'The wick is trimmed when the "{}" keyword says so,\nand stays as it is\notherwise.\n\n  - it burns low.\n'
    )
    menu = '<a data-toggle="dropdown">trim</a><ul class="dropdown-menu"><li>Section of trim</li></ul>'
    menu = f'<span class="box">{menu}</span>'
    said = "".join(f"<h2>Part {at}</h2><pre>{written.format(menu)}</pre>" for at in range(20))
    text = load(
        "a.html", f"<html><body>{said}<p>Example:</p><pre>trim -a 0.1 $lamp\nlight $lamp</pre></body></html>"
    ).text
    said = 'The wick is trimmed when the "trim" keyword says so, and stays as it is otherwise.\n\n- it burns low.'
    assert text.count(said) == 20
    assert "```\ntrim -a 0.1 $lamp\nlight $lamp\n```" in text
    assert "Section of trim" not in text


def test_many_headings_in_a_box_and_many_pictures_are_read() -> None:
    boxes = html_to_markdown("<div class=note>" + "<h2>a</h2><p>b</p>" * 5_000 + "</div>")
    assert boxes.count("## a") == 5_000
    pictures = html_to_markdown("<div>" + "<img alt='grey owl'> " * 5_000 + "</div>")
    assert pictures.count("grey owl") == 5_000
    assert "word-word" in html_to_markdown(f"<body><pre>{'word-' * 100_000}</pre></body>")


@pytest.mark.parametrize(
    "source",
    [
        "/* What the lamp keeper writes into the book. */\nint write_book(void);\n",
        "# Whether the lamp is lit when it is dark\nlamp_is_lit = yes\n",
        "-- The lamp is lit when it is dark.\nalter extension keeper add function light;\n",
    ],
)
def test_source_that_is_mostly_comments_stays_code(source: str) -> None:
    assert html_to_markdown(f"<body><pre>{source * 30}</pre></body>").startswith("```")
