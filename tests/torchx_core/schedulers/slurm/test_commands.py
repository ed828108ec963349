from __future__ import annotations

from collections.abc import Callable

import pytest

from torchx_core.schedulers.slurm.commands import CommandFailed, NoAnswer, ask, call


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
