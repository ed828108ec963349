"""Where Slurm is reached from a host outside the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from torchx_core.schedulers.remote.host import RemoteHost, check_python, parse_address

__all__ = ["PYTHON_VARIABLE", "SSH_VARIABLE", "find_login_node", "login_node"]

SSH_VARIABLE: Final = "TORCHX_SLURM_SSH"
PYTHON_VARIABLE: Final = "TORCHX_SLURM_SSH_PYTHON"


def login_node(address: str, python: str = "python3", *, origin: str = "slurm_ssh") -> RemoteHost:
    """Return the host of the cluster.

    Args:
        address: ``[ssh://][user@]host[:port]``.
        python: What runs the agent there.
        origin: Where the address was given, for messages.

    Raises:
        InvalidInputError: That is no address.
    """
    host = parse_address(address, kind="login node", origin=origin)
    return replace(host, python=python, python_setting=f"slurm_ssh_python or {PYTHON_VARIABLE}")


def find_login_node(address: str | None, python: str | None, environ: Mapping[str, str]) -> RemoteHost | None:
    """Return the login node that the parameters or else the environment name; None when neither does.

    Args:
        address: ``slurm_ssh`` of `torchx_core.get_runner`: ``[ssh://][user@]host[:port]``.
        python: ``slurm_ssh_python``.
        environ: This process's environment.

    Raises:
        InvalidInputError: That is no address, or no program.
    """
    given = address or environ.get(SSH_VARIABLE)
    if not given:
        return None
    program = python or environ.get(PYTHON_VARIABLE) or "python3"
    checked = check_python(program, "slurm_ssh_python" if python else PYTHON_VARIABLE)
    return login_node(given, checked, origin="slurm_ssh" if address else SSH_VARIABLE)
