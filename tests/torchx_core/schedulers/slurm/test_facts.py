"""What the nodes wrote, as a reader sees it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchx_core.schedulers.slurm.facts import find_attempt


def write(log_dir: Path, runs: list[int | None]) -> None:
    """Write attempts that began in these runs of the job; None is a directory where none began."""
    for number, run in enumerate(runs):
        (log_dir / str(number)).mkdir(parents=True)
        if run is not None:
            start = json.dumps({"run": run, "host": "n", "time": 1.0})
            (log_dir / str(number) / "start.json").write_text(start)


def found(log_dir: Path) -> list[int]:
    """Return the numbers of all attempts, one after the other."""
    numbers: list[int] = []
    attempt = find_attempt(str(log_dir), 0)
    while attempt is not None:
        numbers.append(attempt.number)
        attempt = find_attempt(str(log_dir), attempt.number + 1, attempt.run)
    return numbers


@pytest.mark.parametrize(
    ("runs", "numbers"),
    [
        ([], []),
        ([0, 0, 1], [0, 1, 2]),
        ([None], []),
        ([0, None], [0]),
        ([None, 1], [1]),
        ([0, None, None, 1, 1], [0, 3, 4]),
        ([0, 1, 0], [0, 1]),
        ([0, 2, 1, None, 0, 2, 3], [0, 1, 5, 6]),
    ],
)
def test_which_attempts_there_are(tmp_path: Path, runs: list[int | None], numbers: list[int]) -> None:
    """All that began, but none of a task that a later run had already taken the place of."""
    write(tmp_path, runs)
    assert found(tmp_path) == numbers
