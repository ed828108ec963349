"""The tutorial, command for command, with PyTorch, Airflow and Prefect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
LONG_S = 600

pytestmark = [
    pytest.mark.slow,
    pytest.mark.torch,
    pytest.mark.engine,
    pytest.mark.timeout(1200),
]


class Tutorial(NamedTuple):
    """A folder with what the page has the reader save, and its commands by their headings."""

    folder: Path
    commands: dict[str, str]
    env: dict[str, str]

    def do(self, heading: str) -> str:
        """Carry out the section's commands as its reader would, and return what they have printed."""
        done = subprocess.run(
            ["bash", "-euc", self.commands[heading]],
            cwd=self.folder,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONG_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture
def tutorial(tmp_path: Path) -> Tutorial:
    """Save the script, the DAG and the flow."""
    pytest.importorskip("torch")
    commands: dict[str, str] = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        heading, _, text = section.partition("\n")
        commands[heading] = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
        programs = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for name in re.findall(r"ave (?:it|this)[^.]* as `([\w/]+\.py)`", text):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(programs[0])
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TORCHX_STATE_DIR": str(tmp_path / "state"),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "OMP_NUM_THREADS": "1",
    }
    return Tutorial(tmp_path, commands, env)


def epochs(text: str, rank: int) -> list[int]:
    """Return the epochs that the rank has told of, in their order."""
    return [int(epoch) for epoch in re.findall(rf"rank {rank} epoch (\d+) loss", text)]


def test_the_script_in_one_process_and_in_two(tutorial: Tutorial) -> None:
    """Every line of every rank, once."""
    alone = tutorial.do("Run it")
    assert epochs(alone, 0) == [0, 1, 2]
    assert "SUCCEEDED" in alone
    both = tutorial.do("On several processes")
    assert [epochs(both, rank) for rank in (0, 1)] == [[0, 1, 2], [0, 1, 2]]


def test_it_goes_on_where_it_was_killed(tutorial: Tutorial) -> None:
    """Between the checkpoint and the kill a rank may have done another epoch, which it does again."""
    log = tutorial.do("Kill it")
    (resumed,) = {int(epoch) for epoch in re.findall(r"resumes at epoch (\d+)", log)}
    assert 1 <= resumed < 20
    for rank in (0, 1):
        told = epochs(log, rank)
        begun = told.index(resumed) if told.count(resumed) == 1 else len(told) - (20 - resumed)
        assert told[begun:] == list(range(resumed, 20))
        assert told[:begun] == list(range(len(told[:begun])))
    assert "doomed" in tutorial.do("Its page") or (tutorial.folder / "doomed.html").stat().st_size > 0


def test_the_dag(tutorial: Tutorial) -> None:
    """The task's log has both ranks' lines, and the checkpoint is the run's own."""
    shown = tutorial.do("From Airflow")
    assert [epochs(shown, rank) for rank in (0, 1)] == [[0, 1, 2], [0, 1, 2]]
    assert list(tutorial.folder.glob("*.pt"))


def test_the_flow(tutorial: Tutorial) -> None:
    """The flow run's log has both ranks' lines, and the checkpoint is the run's own."""
    shown = tutorial.do("From Prefect")
    assert [epochs(shown, rank) for rank in (0, 1)] == [[0, 1, 2], [0, 1, 2]]
    assert list(tutorial.folder.glob("*.pt"))
