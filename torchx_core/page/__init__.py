"""One page for one app: what was run, how it is doing, its curves and its log, as one HTML file or live.

`AppPage` makes the texts and knows no web server. `PageServer` is one for this host, a plugin another.
"""

from __future__ import annotations

from torchx_core.page.app_page import AppPage
from torchx_core.page.html import content_security_policy, make_notice
from torchx_core.page.server import HEADERS, PageServer

__all__ = ["HEADERS", "AppPage", "PageServer", "content_security_policy", "make_notice"]
