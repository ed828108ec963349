"""Where Slurm is reached: which host, as whom, with which Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from torchx_core.errors import InvalidInputError

__all__ = ["PYTHON_VARIABLE", "SSH_VARIABLE", "LoginNode", "find_login_node"]

SSH_VARIABLE: Final = "TORCHX_SLURM_SSH"
PYTHON_VARIABLE: Final = "TORCHX_SLURM_SSH_PYTHON"

_ADDRESS: Final = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^@:/\s]+)@)?"
    r"(?P<host>[^@:/\s\[\]-][^@:/\s\[\]]*|\[[0-9a-fA-F:.]+(?:%\w+)?\])"
    r"(?::(?P<port>\d{1,5}))?/?"
)
_HIGHEST_PORT: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginNode:
    """A host of the cluster."""

    host: str
    """A name or address, or an alias of the ssh configuration."""
    user: str | None = None
    """None for the configuration's, or the user's own name."""
    port: int | None = None
    python: str = "python3"
    """Runs the agent there: a program that its shell finds, or a path; ``~/`` is the home there."""

    def __str__(self) -> str:
        """Return it as ssh is told."""
        user = f"{self.user}@" if self.user else ""
        return f"{user}{self.host}" if self.port is None else f"{user}{self.host}:{self.port}"

    @property
    def python_word(self) -> str:
        """The Python as a word for a shell."""
        home, slash, rest = self.python.partition("/")
        return f"~/{shlex.quote(rest)}" if slash and rest and home == "~" else shlex.quote(self.python)


def find_login_node(address: str | None, python: str | None, environ: Mapping[str, str]) -> LoginNode | None:
    """Return the login node that the parameters or else the environment name; None when neither does.

    Args:
        address: ``slurm_ssh`` of `torchx_core.get_runner`: ``[ssh://][user@]host[:port]``.
        python: ``slurm_ssh_python``.
        environ: This process's environment.

    Raises:
        InvalidInputError: That is no address, or no program.
    """
    origin = "slurm_ssh" if address else SSH_VARIABLE
    given = address or environ.get(SSH_VARIABLE)
    if not given:
        return None
    found = _ADDRESS.fullmatch(given)
    port = int(found["port"]) if found and found["port"] else None
    if found is None or (port is not None and not 0 < port <= _HIGHEST_PORT):
        raise InvalidInputError(
            f"not the address of a login node: {_without_password(given)!r} ({origin}); expected"
            " [user@]host[:port], and keys instead of a password"
        )
    return LoginNode(
        host=found["host"].strip("[]"), user=found["user"], port=port, python=_python(python, environ)
    )


def _python(given: str | None, environ: Mapping[str, str]) -> str:
    python = given or environ.get(PYTHON_VARIABLE) or "python3"
    if python.startswith("-") or not python.isprintable():
        origin = "slurm_ssh_python" if given else PYTHON_VARIABLE
        raise InvalidInputError(
            f"not a program: {python!r} ({origin}); expected the name or path of a Python there"
        )
    return python


def _without_password(address: str) -> str:
    user, at, host = address.rpartition("@")
    scheme, slashes, name = user.rpartition("//")
    return f"{scheme}{slashes}{name.partition(':')[0]}{at}{host}"
