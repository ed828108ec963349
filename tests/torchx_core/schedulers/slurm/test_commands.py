from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from torchx_core.schedulers.slurm import question
from torchx_core.schedulers.slurm.commands import CommandFailed, NoAnswer, ask, call, not_started
from torchx_core.schedulers.slurm.question import Question
from torchx_core.testing import wait_until


@pytest.mark.parametrize(
    "said",
    [
        "Unable to contact slurm controller (connect failure)",
        "Batch job submission failed: Transport endpoint is not connected",
        "Batch job submission failed: Insane message length",
        "Batch job submission failed: Socket timed out on send/recv operation",
        "Batch job submission failed: Zero Bytes were transmitted or received",
        "Batch job submission failed: Protocol authentication error",
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


@pytest.mark.parametrize("reason", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
def test_a_host_that_is_too_busy_to_start_a_command_is_no_refusal(reason: int) -> None:
    """A record is taken back, and a job forgotten, only for a reason that will be the same later."""
    error = not_started("sbatch", OSError(reason, os.strerror(reason)))
    assert isinstance(error, NoAnswer)
    assert error.retryable


def test_a_question_that_hangs_is_dropped(
    program: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As long as one is open no other is asked, and followers would never hear of Slurm again."""
    monkeypatch.setattr(question, "PATIENCE_S", 0.2)
    program("squeue", "exec sleep 600")
    asked = Question(["squeue"], str)
    assert asked.answer() is None
    assert "squeue: no answer from Slurm's controller: nothing within 0.2 s" in str(_awaited(asked))


def test_a_question_needs_no_disk(
    program: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker may have a read-only file system, and a full one."""
    monkeypatch.setattr(tempfile, "tempdir", "/nonexistent")
    program("squeue", "echo fine")
    assert _awaited(Question(["squeue"], str)) == "fine\n"


def _awaited(asked: Question[str]) -> object:
    """Return the answer, once there is one."""
    answers: list[object] = []

    def is_answered() -> bool:
        answers[:] = [asked.answer()]
        return answers != [None]

    wait_until(is_answered, 240)
    return answers[0]
