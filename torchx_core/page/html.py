"""Makes one HTML file of the page's parts. Nothing that an app has said is ever HTML in it."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Final

from torchx_core.page.document import Increment

__all__ = ["Source", "content_security_policy", "make_html", "make_notice"]

_SCRIPTS: Final = ("dom.js", "model.js", "overview.js", "replicas.js", "charts.js", "log.js", "main.js")
"""In this order: each uses what those before it define."""
_ESCAPES: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a page gets what happens next; nowhere, if it shows one moment."""

    events: str = ""


def make_html(title: str, first: Increment, source: Source) -> str:
    """Return the page.

    Args:
        title: What the browser's tab says.
        first: What the page shows before it has heard anything.
        source: From where it hears more.
    """
    parts = {
        "csp": escape(content_security_policy()),
        "title": escape(title),
        "style": _asset("page.css"),
        "data": _in_script({"source": source.events, "increment": first}),
        "scripts": "\n".join(f"<script>{_asset(name)}</script>" for name in _SCRIPTS),
    }
    return Template(_asset("page.html")).substitute(parts)


def make_notice(title: str, text: str) -> str:
    """Return a page that says why there is no page.

    Args:
        title: What the browser's tab says.
        text: Paragraphs, with empty lines between; what is to be typed stands between backticks.
    """
    parts = text.split("`")
    marked = "".join(f"<code>{escape(p)}</code>" if at % 2 else escape(p) for at, p in enumerate(parts))
    body = "".join(f"<p>{paragraph}</p>" for paragraph in marked.split("\n\n"))
    names = {"csp": escape(content_security_policy()), "title": escape(title), "style": _asset("page.css")}
    return Template(_asset("notice.html")).substitute(names, body=body)


@cache
def content_security_policy(*, frames: str = "") -> str:
    """Return what the page may do: run our scripts, use our style, ask its own server; nothing else.

    Args:
        frames: Who may put it into a frame (``'self'``); only a header may say so. Empty: nothing is said.
    """
    scripts = " ".join(_hash(_asset(name)) for name in _SCRIPTS)
    rules = [
        "default-src 'none'",
        f"script-src {scripts}",
        f"style-src {_hash(_asset('page.css'))}",
        "img-src data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
        *([f"frame-ancestors {frames}"] if frames else []),
    ]
    return "; ".join(rules)


@cache
def _asset(name: str) -> str:
    return files("torchx_core.page").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _in_script(value: object) -> str:
    """Return JSON that ends no script element, whatever is in it."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)
