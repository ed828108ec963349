"""``-j [[MIN:]NODESx]PROCESSES``."""

from __future__ import annotations

import pytest

from torchx_core.components.topology import Topology, parse_topology
from torchx_core.errors import InvalidInputError


@pytest.mark.parametrize(
    ("j", "host", "topology"),
    [
        ("4", None, (1, 1, 4)),
        ("2x4", None, (2, 2, 4)),
        ("1:2x4", None, (1, 2, 4)),
        ("2", "gpu.medium", (2, 2, 2)),
        ("2x8", "gpu.medium", (2, 2, 8)),
        ("1:2x8", "gpu.medium", (1, 2, 8)),
    ],
)
def test_every_form_is_read(j: str, host: str | None, topology: tuple[int, int, int]) -> None:
    """A number alone counts processes, or nodes with a process per GPU where the host is named."""
    assert parse_topology(j, host=host) == Topology(*topology)


@pytest.mark.parametrize(("topology", "nodes"), [(Topology(2, 2, 4), "2"), (Topology(1, 2, 4), "1:2")])
def test_the_nodes_are_spelled_for_torchrun(topology: Topology, nodes: str) -> None:
    """As a number, or a range."""
    assert topology.nodes == nodes


@pytest.mark.parametrize(
    "j", ["", "x", "2x", "x2", "2:x4", "1:2", "-1x2", "2x2x2", " 2x2", "\N{FULLWIDTH DIGIT TWO}x2", "2x2\n"]
)
def test_another_form_is_refused(j: str) -> None:
    """With the forms there are."""
    with pytest.raises(InvalidInputError, match=r"expected .*PROCESSES, as in 4, 2x4 or 1:2x4"):
        parse_topology(j)


@pytest.mark.parametrize("j", ["0", "0x1", "2x0", "0:1x1", "3:2x1"])
def test_impossible_numbers_are_refused(j: str) -> None:
    """There is nothing to run, or too little."""
    with pytest.raises(InvalidInputError, match="impossible -j"):
        parse_topology(j)


def test_a_host_without_gpus_has_nothing_to_count() -> None:
    """The number of processes must be given there."""
    with pytest.raises(
        InvalidInputError, match=r"a process per GPU, and 'cpu\.small' has none; write 2xPROCESSES"
    ):
        parse_topology("2", host="cpu.small")
