"""What the engine's statistics say, in the shapes that engines have."""

from __future__ import annotations

from typing import Any

import pytest

from torchx_core.schedulers.docker.answers import Figures, figures_of

BLOCKS = [{"op": "Read", "value": 4096}, {"op": "Write", "value": 512}, {"op": "Read", "value": 4096}]


@pytest.mark.parametrize(
    ("row", "figures"),
    [
        # Version 1 of control groups, as engine 20.10.24 tells it.
        (
            {
                "cpu_stats": {"cpu_usage": {"total_usage": 1_500_000_000}},
                "memory_stats": {"usage": 900, "max_usage": 1000, "stats": {"total_inactive_file": 300}},
                "blkio_stats": {"io_service_bytes_recursive": BLOCKS},
                "pids_stats": {"current": 9},
            },
            Figures(1.5, 600, 1000, 8192, 512),
        ),
        # Version 2: no peak, other names; no device was used.
        (
            {
                "cpu_stats": {"cpu_usage": {"total_usage": 1_000_000_000}},
                "memory_stats": {"usage": 900, "stats": {"inactive_file": 100}},
                "blkio_stats": {"io_service_bytes_recursive": None},
            },
            Figures(1.0, 800, None, None, None),
        ),
        # Of a container that has just ended.
        (
            {
                "read": "0001-01-01T00:00:00Z",
                "cpu_stats": {"cpu_usage": {"total_usage": 0}},
                "memory_stats": {},
                "blkio_stats": {"io_service_bytes_recursive": None},
            },
            Figures(None, None, None, None, None),
        ),
        ({}, Figures(None, None, None, None, None)),
        ({"cpu_stats": {"cpu_usage": {"total_usage": "x"}}, "memory_stats": None}, Figures(*5 * [None])),
    ],
)
def test_what_is_known_is_read_and_nothing_else(row: dict[str, Any], figures: Figures) -> None:
    """What is missing is unknown, never 0."""
    assert figures_of(row) == figures
