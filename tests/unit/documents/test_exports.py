"""Exports of wikis, trackers and feeds have a section for each page, issue or entry."""

from __future__ import annotations

from html import escape

import pytest

from .samples import load

_TRACKER = """<?xml version="1.0"?><rss version="0.92"><channel><title>Desk</title><item>
<title>[PUMP-3] Pump leaks</title><link>https://desk.example/PUMP-3</link><project key="PUMP">Pumps</project>
<description>&lt;p&gt;The &lt;b&gt;seal&lt;/b&gt; drips.&lt;/p&gt;&lt;h1&gt;Since&lt;/h1&gt;&lt;p&gt;May &amp;amp;
June&lt;/p&gt;</description><environment/><summary>Pump leaks</summary><status icon="x.png">Closed</status><comments>
<comment author="mira" created="Tue, 7 May">&lt;p&gt;A new seal is in.&lt;/p&gt;</comment></comments><customfields>
<customfield id="7"><customfieldname>Hall</customfieldname><customfieldvalues><customfieldvalue>North</customfieldvalue>
</customfieldvalues></customfield></customfields></item></channel></rss>"""


def test_issues_have_their_fields_texts_and_comments() -> None:
    document = load("desk.xml", _TRACKER)
    assert (document.title, document.metadata["mime_type"]) == ("Desk", "application/xml")
    assert document.text == (
        "# Desk\n\n## [PUMP-3] Pump leaks\n\n- link: https://desk.example/PUMP-3\n- project: Pumps\n- status: Closed\n"
        "- Hall: North\n\n"
        "The seal drips.\n\n### Since\n\nMay & June\n\nComment by mira, Tue, 7 May: A new seal is in.\n"
    )


def test_entries_of_a_feed_and_posts_of_a_blog_are_read() -> None:
    feed = (
        '<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><entry><title>Seals</title><link href="https://n.example/1"'
        '/><content type="html">&lt;p&gt;They fit.&lt;/p&gt;</content></entry></feed>'
    )
    assert load("a.atom", feed).text == "# News\n\n## Seals\n\n- link: https://n.example/1\n\nThey fit.\n"
    blog = (
        '<rss xmlns:content="http://purl.org/rss/1.0/modules/content/" xmlns:wp="http://wordpress.org/export/1.2/"><channel>'
        "<title>Blog</title><item><title>Seals</title><content:encoded><![CDATA[They <i>fit</i>.]]></content:encoded>"
        "<wp:post_id>7</wp:post_id><wp:comment><wp:comment_author>Bo</wp:comment_author><wp:comment_content>Not mine."
        "</wp:comment_content></wp:comment></item></channel></rss>"
    )
    assert load("blog.xml", blog).text == "# Blog\n\n## Seals\n\nThey fit.\n\nComment by Bo: Not mine.\n"


_WIKI_PAGE = """{{Device
| name = Pump <!-- no -->
| oil = 3 litres
}}
The '''pump''' of [[Hall North|the hall]] runs on {{unit|24|V}}.<ref name="a">Since 2020</ref>
It is [https://p.example loud].
== Care ==
* Daily
** look
*** [[Gauge]]
# Stop it
## Wait

{| class="wikitable"
|+ Oils
! Part !! style="width:3em" | Oil
|-
| Axle || thin
|-
| colspan=1 | Gear
| thick
|}
<syntaxhighlight lang="sh">pump --stop [[x]] ''y''</syntaxhighlight>
[[File:pump.png|thumb|200px|The pump of [[Hall North]]]] [[Category:Pumps]]"""
_WIKI_MARKDOWN = """- name: Pump
- oil: 3 litres

The pump of the hall runs on 24 V. (Since 2020)
It is [loud](https://p.example).
## Care
- Daily
  - look
    - Gauge
1. Stop it
   1. Wait

Oils

| Part | Oil |
| --- | --- |
| Axle | thin |
| Gear | thick |

```sh
pump --stop [[x]] ''y''
```

The pump of Hall North
"""


def test_markup_of_a_wiki_becomes_markdown() -> None:
    assert load("pump.mediawiki", _WIKI_PAGE).text.strip() == _WIKI_MARKDOWN.strip()


def test_dump_of_a_wiki_has_a_section_for_what_each_page_says_now() -> None:
    def page(title: str, *texts: str, space: str = "0", more: str = "") -> str:
        revisions = "".join(f"<revision><text>{text}</text></revision>" for text in texts)
        return f"<page><title>{title}</title><ns>{space}</ns>{more}{revisions}</page>"

    pages = (
        page("Pump", "Old.", "== Use ==\nNew."),
        page("Engine", "#REDIRECT [[Pump]]", more='<redirect title="Pump"/>'),
        page("Template:Device", "x", space="10"),
        page("Talk:Pump", "Why?\n:Because.", space="1"),
    )
    dump = (
        '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/"><siteinfo><sitename>Works</sitename></siteinfo>'
        f"{''.join(pages)}</mediawiki>"
    )
    assert load("dump.xml", dump).text == ("# Works\n\n## Pump\n\n### Use\nNew.\n\n## Talk:Pump\n\nWhy?\n\nBecause.\n")


def test_pages_of_a_space_are_read_with_their_macros() -> None:
    body = (
        '<p>See <ac:link><ri:page ri:content-title="Oil" /></ac:link> and <ac:link><ri:page ri:content-title="x" />'
        "<ac:link-body>gears</ac:link-body></ac:link>.</p><h1>Stop</h1>"
        '<ac:structured-macro ac:name="code"><ac:parameter ac:name="language">sh</ac:parameter><ac:plain-text-body>'
        "<![CDATA[pump <off>]]]]><![CDATA[></ac:plain-text-body></ac:structured-macro>"
        "<ac:task-list><ac:task><ac:task-id>1</ac:task-id><ac:task-body>Order a seal</ac:task-body></ac:task>"
        "</ac:task-list>"
    )

    def page(key: int, title: str, more: str = "") -> str:
        return (
            f'<object class="Page"><id name="id">{key}</id><property name="title"><![CDATA[{title}]]></property>{more}'
            f'</object><object class="BodyContent"><property name="body"><![CDATA[{body}]]></property>'
            f'<property name="content" class="Page"><id name="id">{key}</id></property></object>'
        )

    old = page(2, "Older", '<property name="originalVersion"><id name="id">1</id></property>')
    gone = page(3, "Gone", '<property name="contentStatus">deleted</property>')
    space = f"<hibernate-generic>{page(1, 'Pump')}{old}{gone}</hibernate-generic>"
    assert load("entities.xml", space).text == (
        "## Pump\n\nSee Oil and gears.\n\n### Stop\n\n```\npump <off>\n```\n\n- Order a seal\n"
    )


def test_xml_of_another_kind_and_an_empty_export_stay_code() -> None:
    for text in ("<rss><channel><title>x</title></channel></rss>", "<hosts><host>a</host></hosts>"):
        assert "```xml" in load("a.xml", text).text


def test_feed_says_what_it_is_about_and_keeps_paragraphs_of_xhtml() -> None:
    entry = "<entry><title>Oil</title><content><div><p>It is <b>thin</b> oil.</p></div></content></entry>"
    text = load("a.xml", f"<feed><title>Pump</title><subtitle>All of it.</subtitle>{entry}</feed>").text
    assert text == "# Pump\n\nAll of it.\n\n## Oil\n\nIt is thin oil.\n"


@pytest.mark.parametrize("piece", ["<ac:link>", "<ac:parameter>", "<ac:link ", "<![CDATA["])
def test_elements_of_confluence_without_end_take_no_more_time_than_their_length(piece: str) -> None:
    said = f"<property name='content'>2</property><property name='body'>Oil{escape(piece * 20_000)}</property>"
    body = f"<object class='BodyContent'>{said}</object>"
    page = "<object class='Page'><id>2</id><property name='title'>Pump</property></object>"
    assert "Oil" in load("entities.xml", f"<hibernate-generic>{body}{page}</hibernate-generic>").text


def test_wiki_keeps_works_that_are_cited_and_signs_that_are_no_tags() -> None:
    text = load(
        "a.mediawiki", "Oil.<ref>{{cite web|title=Thin oil|year=2020}}</ref> If x<y and z>w <br/>{{T:a|thin}}.\n"
    ).text
    assert text == "Oil. (Thin oil, 2020) If x<y and z>w \nthin."
