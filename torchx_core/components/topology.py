"""How many nodes with how many processes each: ``-j [[MIN:]NODESx]PROCESSES``."""

from __future__ import annotations

import re
from typing import NamedTuple

from torchx_core.errors import InvalidInputError
from torchx_core.specs import resource

__all__ = ["Topology", "parse_nnodes", "parse_topology"]

_FORM = re.compile(r"(?:(?:(\d+):)?(\d+)x)?(\d+)", re.ASCII)


class Topology(NamedTuple):
    """Nodes, each a replica, and the processes on each of them."""

    min_nodes: int
    max_nodes: int
    processes: int
    """Per node."""

    @property
    def nodes(self) -> str:
        """Return what ``torchrun --nnodes`` takes."""
        return (
            str(self.max_nodes) if self.min_nodes == self.max_nodes else f"{self.min_nodes}:{self.max_nodes}"
        )


def parse_topology(j: str, *, host: str | None = None) -> Topology:
    """Read the text.

    Args:
        j: ``4`` (processes on one node), ``2x4``, or ``1:2x4`` (from 1 to 2 nodes).
        host: A named resource: a number alone is then the nodes, each with a process per GPU of that host.

    Raises:
        InvalidInputError: It has another form, a number is 0, or the host has no GPU to count.

    Example:
        >>> parse_topology("1:2x4")
        Topology(min_nodes=1, max_nodes=2, processes=4)
    """
    form = _FORM.fullmatch(j)
    if not form:
        raise InvalidInputError(
            f"malformed -j {j!r}; expected [[MIN:]NODESx]PROCESSES, as in 4, 2x4 or 1:2x4"
        )
    if form[2] is None and host is not None:
        return _checked(j, int(j), int(j), _gpus(host, j))
    most = int(form[2] or 1)
    return _checked(j, int(form[1] or most), most, int(form[3]))


def parse_nnodes(j: str) -> tuple[int, int, int, str]:
    """Return the fewest nodes, the most, the processes on each, and what ``torchrun --nnodes`` takes.

    Raises:
        InvalidInputError: The text is not ``[[MIN:]NODESx]PROCESSES``.
    """
    topology = parse_topology(j)
    return topology.min_nodes, topology.max_nodes, topology.processes, topology.nodes


def _checked(j: str, fewest: int, most: int, processes: int) -> Topology:
    if not (1 <= fewest <= most and processes >= 1):
        raise InvalidInputError(f"impossible -j {j!r}; expected 1 <= MIN <= NODES and at least one process")
    return Topology(fewest, most, processes)


def _gpus(host: str, j: str) -> int:
    gpus = resource(h=host).gpu
    if gpus < 1:
        raise InvalidInputError(
            f"-j {j!r} means a process per GPU, and {host!r} has none; write {j}xPROCESSES"
        )
    return gpus
