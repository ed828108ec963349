"""Addresses of servers: what of them may be shown, and whether somebody answers there."""

from __future__ import annotations

import re

__all__ = ["check_reachable", "is_page", "without_password"]

_LONGEST_S = 10.0
_PORTS = {"http": 80, "https": 443}


def is_page(address: str) -> bool:
    """Return whether a browser can open the address."""
    return address.startswith(("http://", "https://"))


def without_password(address: str) -> str:
    """Return an address without the user and password in it.

    Example:
        >>> without_password("https://ann:sesame@mlflow/")
        'https://mlflow/'
    """
    return re.sub(r"(?<=://)[^/\s@]*@", "", address)


def check_reachable(address: str) -> None:
    """Connect to the server of an http or https address, and hang up; behind a proxy nothing is tried.

    MLflow's client tries for four minutes before it says that nobody answers.

    Raises:
        OSError: Nobody answers there.
    """
    import socket  # imported here, with the next two: they are needed for servers alone
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    parts = urlsplit(address)
    if is_page(address) and parts.hostname and not getproxies():
        port = parts.port or _PORTS[parts.scheme]
        socket.create_connection((parts.hostname, port), _LONGEST_S).close()
