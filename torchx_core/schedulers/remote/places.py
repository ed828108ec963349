"""Places: other hosts by the names that schedulers' names end in, as in ``local_cwd@gpu-box``.

A place needs no setting where ssh knows it by that name: an alias of the user's ssh configuration, or a host
of the network. Where it does not, or where another Python or state directory is to be used there, an address
says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from torchx_core.errors import InvalidInputError, did_you_mean
from torchx_core.schedulers.remote.host import RemoteHost, check_python, parse_address

__all__ = ["PLACES_VARIABLE", "Place", "find_place"]

PLACES_VARIABLE: Final = "TORCHX_PLACES"
"""Environment variable with places as words ``NAME=ADDRESS``."""

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_FORM: Final = "[ssh://][user@]host[:port][?python=…&state_dir=…]"
_SETTINGS: Final = ("python", "state_dir")


class Place(NamedTuple):
    """Where a scheduler is asked for."""

    host: RemoteHost
    state_dir: str | None
    """Where records lie there, relative to the home directory; None for what counts there."""


def find_place(name: str, places: Mapping[str, str] | str | None, environ: Mapping[str, str]) -> Place:
    """Return the place of that name.

    Args:
        name: What follows the ``@`` in the name of a scheduler.
        places: Name -> ``[ssh://][user@]host[:port][?python=…&state_dir=…]``; or the same as words
            ``NAME=ADDRESS``; None for ``TORCHX_PLACES``. A name that is not among them is ssh's to know.
        environ: This process's environment.

    Raises:
        InvalidInputError: The name, or an address among the places, is none.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInputError(f"not the name of a place: {name!r}; letters, digits and _.- are allowed")
    given = environ.get(PLACES_VARIABLE, "") if places is None else places
    origin = PLACES_VARIABLE if places is None else "places"
    addresses = _of_words(given, origin) if isinstance(given, str) else given
    address, mark, settings = str(addresses.get(name, name)).partition("?")
    host = parse_address(address, kind="host", origin=f"place {name} in {origin}")
    found = _settings(settings, name, origin) if mark else {}
    python = check_python(found.get("python", "python3"), f"place {name} in {origin}")
    advice = f"{PLACES_VARIABLE}='{name}={host.address}?python=…'"
    return Place(replace(host, python=python, python_setting=advice), found.get("state_dir"))


def _of_words(text: str, origin: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in text.split():
        name, equals, address = word.partition("=")
        if not (equals and address and _NAME.fullmatch(name)):
            raise InvalidInputError(f"not a place: {word!r} ({origin}); expected NAME={_FORM}")
        found[name] = address
    return found


def _settings(text: str, name: str, origin: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split("&"):
        key, _, value = part.partition("=")
        if key not in _SETTINGS or not value:
            hint = did_you_mean(key, _SETTINGS)
            raise InvalidInputError(
                f"place {name} in {origin}: {part!r}; known: {', '.join(f'{s}=…' for s in _SETTINGS)}{hint}"
            )
        found[key] = value
    return found
