"""The engine's events as a notifier: they tell that it is time to look, never how things stand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast
from urllib.parse import urlencode

from torchx_core.schedulers.docker.endpoint import Endpoint
from torchx_core.schedulers.docker.exchange import Exchange, Request
from torchx_core.schedulers.docker.labels import KEY
from torchx_core.schedulers.docker.polling import encoded

__all__ = ["ALL", "EventStream"]

ALL = ""
"""Rings for every app: the stream has just begun, or was interrupted."""

_KINDS = ["create", "start", "restart", "kill", "die", "stop", "destroy", "pause", "unpause"]
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 2.0
_OK = 200


class EventStream:
    """One connection to the engine; it is made again when it breaks.

    It asks for what happened before as well (the engine keeps a few events), because the engine answers a
    moment before it listens: without that, what happens in this moment would notify nobody.
    """

    def __init__(self, endpoint: Endpoint, version: str, filters: Mapping[str, Sequence[str]]) -> None:
        """Connect at the first `advance`."""
        wanted = encoded({"type": ["container"], "event": _KINDS, **filters})
        query = urlencode({"filters": wanted, "since": "1"})
        self._endpoint, self._version = endpoint, version
        self._request = Request(f"/events?{query}")
        self._rest: bytes = b""
        self._begun = False
        self._pause_s = _FIRST_PAUSE_S
        self.exchange: Exchange | None = None
        """The connection, if there is one."""
        self.due_at: float = 0.0
        """When to connect again, in monotonic seconds, if there is none."""

    def advance(self, now: float) -> set[str]:
        """Return the keys of the apps of which something happened, or `ALL`."""
        if self.exchange is None:
            if now < self.due_at:
                return set()
            self.exchange = Exchange(self._endpoint, self._version, self._request)
            self._rest, self._begun = b"", False
        exchange = self.exchange
        rung = self._read(exchange.advance())
        if exchange.status == _OK and not self._begun:
            self._begun, self._pause_s = True, _FIRST_PAUSE_S
            rung.add(ALL)
        if exchange.over:
            exchange.close()
            self.exchange = None
            self.due_at = now + self._pause_s
            self._pause_s = min(2 * self._pause_s, _LAST_PAUSE_S)
            rung.add(ALL)
        return rung

    def _read(self, data: bytes) -> set[str]:
        if not data:
            return set()
        *lines, self._rest = (self._rest + data).split(b"\n")
        return {_key(line) for line in lines if line.strip()}

    def close(self) -> None:
        """Let go of the connection."""
        if self.exchange is not None:
            self.exchange.close()
            self.exchange = None


def _key(line: bytes) -> str:
    try:
        event = cast("dict[str, dict[str, dict[str, str]]]", json.loads(line))
        return str(event["Actor"]["Attributes"][KEY])
    except (KeyError, TypeError, ValueError, RecursionError):
        return ALL  # whatever it is, it does no harm to look
