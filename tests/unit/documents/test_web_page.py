from __future__ import annotations

import pytest

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
        "language": "en-GB",
        "author": "Ada Noll",
        "created_at": "2024-05-01",
    }


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


def test_spans_beyond_reason_cost_nothing() -> None:
    table = "<table><tr><th colspan=999999999>a</th></tr><tr><td rowspan=99999999>b</td><td>c</td></tr></table>"
    assert len(html_to_markdown(table)) < 20_000
