from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from torchx_core.schedulers.slurm.commands import CommandFailed, NoAnswer, ask, call
from torchx_core.schedulers.slurm.question import Question


@pytest.mark.parametrize(
    "said",
    [
        "Unable to contact slurm controller (connect failure)",
        "Batch job submission failed: Transport endpoint is not connected",
        "Batch job submission failed: Insane message length",
        "Batch job submission failed: Socket timed out on send/recv operation",
        "Batch job submission failed: Zero Bytes were transmitted or received",
    ],
)
def test_a_controller_that_is_away_or_restarts(said: str, program: Callable[[str, str], None]) -> None:
    """Has refused nothing: nobody knows whether it did what it was asked for."""
    program("sbatch", f"echo 'sbatch: error: {said}' >&2; exit 1")
    with pytest.raises(NoAnswer) as caught:
        call(["sbatch"])
    assert str(caught.value) == f"sbatch: no answer from Slurm's controller: {said}"


def test_what_is_refused(program: Callable[[str, str], None]) -> None:
    """Will be again; Slurm's own words say why."""
    program("sbatch", "echo 'sbatch: error: invalid partition specified: nowhere' >&2; exit 1")
    with pytest.raises(CommandFailed, match=r"^sbatch: invalid partition specified: nowhere$"):
        call(["sbatch"])


def test_who_has_little_time(program: Callable[[str, str], None]) -> None:
    """Is told that there is no answer yet."""
    program("squeue", "exec sleep 600")
    with pytest.raises(NoAnswer, match=r"nothing within 0\.1 s"):
        ask(["squeue"], str, patience_s=0.1)


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("kill -KILL $$", "it was killed by SIGKILL"),
        ("echo 'Killed' >&2; exit 137", "it was killed by SIGKILL; it said: Killed"),
        ("kill -TERM $$", "it was killed by SIGTERM"),
        ("echo 'Broken pipe' >&2; exit 255", "Broken pipe"),
        ("exit 255", "it ended with exit code 255 and without a word"),
    ],
)
def test_a_command_that_dies_has_not_refused(
    script: str, told: str, program: Callable[[str, str], None]
) -> None:
    """Slurm may have heard it before, so the error says that the outcome is unknown, and what was seen."""
    program("sbatch", script)
    with pytest.raises(NoAnswer) as caught:
        call(["sbatch"])
    assert str(caught.value) == f"sbatch: no answer from Slurm's controller: {told}"
    assert caught.value.retryable


def test_a_refusal_without_a_word(program: Callable[[str, str], None]) -> None:
    """Nothing is invented: the error has the exit code, which is all that there is."""
    program("sbatch", "exit 1")
    with pytest.raises(CommandFailed, match=r"^sbatch: it ended with exit code 1 and without a word$"):
        call(["sbatch"])


def test_a_command_that_cannot_be_started_has_done_nothing(
    program: Callable[[str, str], None], tmp_path: Path
) -> None:
    """The error is a refusal that tells why, also where nobody waits for the answer."""
    program("s-batch", "echo 7")  # no other directory of the path has one
    (tmp_path / "s-batch").chmod(0o644)
    with pytest.raises(CommandFailed, match=r"^s-batch: cannot be started: Permission denied$"):
        call(["s-batch"])
    assert isinstance(Question(["s-batch"], str).answer(), CommandFailed)
