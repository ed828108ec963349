from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from torchx_core.page.html import Source, content_security_policy, make_html

HOSTILE = "</script><script>alert(1)</script><!--<script>]]>&lt;\u2028\x00'\"`${x}$data"


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.addresses: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href")]


def _elements(html: str) -> _Elements:
    elements = _Elements()
    elements.feed(html)
    return elements


def test_the_page_asks_nobody_for_anything() -> None:
    """One file: no address of a script, a style, a picture or a font."""
    html = make_html("t", {}, Source())
    assert set(_elements(html).addresses) == {"data:,", "#log-list"}
    assert not re.search(r"url\(|@import|https?://(?!\S*\$)", html.replace("https?:", ""))


@pytest.mark.parametrize("text", [HOSTILE, "</SCRIPT x", "<!--", "\ud800"])
def test_no_text_ends_the_script_that_holds_it(text: str) -> None:
    """The page has as many scripts as ever, and the text arrives as it was."""
    html = make_html(text.replace("\ud800", ""), {"message": text, "notices": [(text, text, 0.0)]}, Source())
    assert _elements(html).scripts == _elements(make_html("t", {}, Source())).scripts
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html)
    assert json.loads(data)["increment"]["message"] == text
    html.encode()


def test_scripts_and_styles_run_by_their_hashes_alone() -> None:
    """No inline script of anybody else would run, and nothing may make HTML of a text."""
    policy = content_security_policy(frames="'none'")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


def test_our_scripts_know_no_way_to_make_html_of_a_text() -> None:
    """Text nodes only."""
    html = make_html("t", {}, Source())
    ways = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|DOMParser"
    assert re.findall(ways, html) == []


def test_a_page_without_data_is_small() -> None:
    """It opens at once, wherever it is sent to."""
    assert len(make_html("t", {}, Source())) < 80_000
