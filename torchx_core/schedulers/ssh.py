"""The one way to another host: the user's own ``ssh``, with all that he has configured."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

__all__ = ["SSH_FAILED", "kill_ssh", "ssh_command"]

SSH_FAILED = 255
"""The exit code of an ``ssh`` that did not get through, or whose connection broke."""
_ALIVE_S, _ALIVE_COUNT = 15, 3
"""A host that says nothing for so long, and so often, is gone."""


def ssh_command(
    host: str,
    command: str,
    *,
    user: str | None = None,
    port: int | None = None,
    timeout_s: float,
    terminal: bool = False,
) -> list[str]:
    """Return the words that start an ``ssh`` which asks nothing and carries one program's streams alone.

    Unless it has a terminal, start it in a session of its own: Ctrl-C is not for it, and it finds no terminal
    to ask on.
    It uses a connection that the user's configuration shares (``ControlPath``), but never opens one
    for others to share: that would take the user's terminals along when it ends.

    Args:
        host: A name, an address, or an alias of the user's configuration.
        command: What the other host's shell runs.
        user: None for the configuration's, or the user's own name.
        port: None for the configuration's, or 22.
        timeout_s: How long connecting may take; at least a second.
        terminal: Give the program a terminal, which is ours.
    """
    options = {
        "IgnoreUnknown": "*",  # an older ssh has no RemoteCommand (7.6), no SessionType and its like (8.7)
        "BatchMode": "yes",
        "ConnectTimeout": max(1, round(timeout_s)),
        "ServerAliveInterval": _ALIVE_S,
        "ServerAliveCountMax": _ALIVE_COUNT,
        "ControlMaster": "no",
        "ClearAllForwardings": "yes",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "PermitLocalCommand": "no",
        "RemoteCommand": "none",
        "SessionType": "default",
        "StdinNull": "no",
        "ForkAfterAuthentication": "no",
        # At ERROR it does not say why it cannot negotiate, or who closed the connection; of a terminal it
        # says at INFO that it was closed.
        "LogLevel": "ERROR" if terminal else "INFO",
    }
    return [
        *("ssh", "-tt" if terminal else "-T"),
        *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
        *(("-l", user) if user else ()),
        *(("-p", str(port)) if port else ()),
        *("--", host, command),
    ]


def kill_ssh(pid: int) -> None:
    """Kill an ``ssh`` that was started in a session of its own, and those by which it reaches its host.

    An ``ssh`` for a jump host would otherwise wait for that host, for as long as it does not answer.
    """
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
