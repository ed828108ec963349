"""A host that is reached over ssh: by which address, as whom, with which Python."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final

from torchx_core.errors import InvalidInputError

__all__ = ["RemoteHost", "check_python", "parse_address"]

_ADDRESS: Final = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@:/\s]+)@)?"
    r"(?P<name>[^@:/\s\[\]-][^@:/\s\[\]]*|\[[0-9a-fA-F:.]+(?:%\w+)?\])"
    r"(?::(?P<port>\d{1,5}))?/?"
)
_HIGHEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteHost:
    """Where the agent runs."""

    name: str
    """A name or address, or an alias of the ssh configuration."""
    user: str | None = None
    """None for the configuration's, or the user's own name."""
    port: int | None = None
    python: str = "python3"
    """Runs the agent there: a program that its shell finds, or a path; ``~/`` is the home there."""
    kind: str = "host"
    """What messages call it."""
    python_setting: str = "python="
    """What another Python is named by, for messages."""

    def __str__(self) -> str:
        """Return what it is, and its address as ssh is told."""
        return f"{self.kind} {self.address}"

    @property
    def address(self) -> str:
        """The address, as ssh is told."""
        user = f"{self.user}@" if self.user else ""
        return f"{user}{self.name}" if self.port is None else f"{user}{self.name}:{self.port}"

    @property
    def python_word(self) -> str:
        """The Python as a word for a shell."""
        home, slash, rest = self.python.partition("/")
        return f"~/{shlex.quote(rest)}" if slash and rest and home == "~" else shlex.quote(self.python)


def parse_address(address: str, *, kind: str, origin: str) -> RemoteHost:
    """Return the host of ``[ssh://][user@]host[:port]``, with the Python that its shell finds.

    Args:
        address: What was given.
        kind: What messages call the host.
        origin: Where the address was given, for messages.

    Raises:
        InvalidInputError: That is no address.
    """
    found = _ADDRESS.fullmatch(address)
    port = int(found["port"]) if found and found["port"] else None
    if found is None or (port is not None and not 0 < port <= _HIGHEST_PORT):
        raise InvalidInputError(
            f"not the address of a {kind}: {_without_password(address)!r} ({origin}); expected"
            " [user@]host[:port], and keys instead of a password"
        )
    return RemoteHost(name=found["name"].strip("[]"), user=found["user"], port=port, kind=kind)


def check_python(python: str, origin: str) -> str:
    """Return the program, if it can be one.

    Raises:
        InvalidInputError: It would be taken for an option, or has characters that no name has.
    """
    if python.startswith("-") or not python.isprintable():
        raise InvalidInputError(
            f"not a program: {python!r} ({origin}); expected the name or path of a Python there"
        )
    return python


def _without_password(address: str) -> str:
    user, at, host = address.rpartition("@")
    scheme, slashes, name = user.rpartition("//")
    return f"{scheme}{slashes}{name.partition(':')[0]}{at}{host}"
