"""Ctrl-C, as a table of what leads where."""

from __future__ import annotations

import os
import signal

import pytest

from torchx_core.cli.interrupt import Happening, Interrupts, Phase, next_phase


@pytest.mark.parametrize(
    ("phase", "happening", "after"),
    [
        (Phase.FOLLOWING, Happening.INTERRUPT, Phase.ASKING),
        (Phase.ASKING, Happening.SAID_CANCEL, Phase.CANCELLING),
        (Phase.ASKING, Happening.SAID_DETACH, Phase.LEAVING),
        (Phase.ASKING, Happening.SAID_OTHER, Phase.FOLLOWING),
        (Phase.ASKING, Happening.INTERRUPT, Phase.CANCELLING),
        (Phase.CANCELLING, Happening.INTERRUPT, Phase.LEAVING),
        (Phase.CANCELLING, Happening.SAID_DETACH, Phase.CANCELLING),
        (Phase.FOLLOWING, Happening.HANG_UP, Phase.LEAVING),
        (Phase.ASKING, Happening.HANG_UP, Phase.LEAVING),
        (Phase.CANCELLING, Happening.HANG_UP, Phase.LEAVING),
        (Phase.LEAVING, Happening.INTERRUPT, Phase.LEAVING),
    ],
)
def test_what_leads_where(phase: Phase, happening: Happening, after: Phase) -> None:
    """A human's act may cancel; what happens to the shell only detaches."""
    assert next_phase(phase, happening, Phase.CANCELLING) is after


@pytest.mark.parametrize("unasked", [Phase.CANCELLING, Phase.LEAVING])
def test_where_nobody_can_be_asked_the_command_decides(unasked: Phase) -> None:
    """`run` cancels what it started, `wait` leaves what somebody else started."""
    assert next_phase(Phase.FOLLOWING, Happening.INTERRUPT_UNASKED, unasked) is unasked


def test_the_process_gets_its_handlers_back() -> None:
    """Whatever was installed before is there afterwards, and in between no signal is lost."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    with Interrupts(unasked=Phase.CANCELLING) as interrupts:
        assert interrupts.look() is Phase.FOLLOWING
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupts.look() is Phase.LEAVING
        assert interrupts.signal is signal.SIGTERM
    assert [signal.getsignal(number) for number in numbers] == before


def test_three_interrupts_that_nobody_looked_at_get_out() -> None:
    """Of a submit that takes long, where no batch comes between which somebody could look."""
    with Interrupts(unasked=Phase.CANCELLING) as interrupts:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        assert interrupts.phase is Phase.FOLLOWING


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    """As under nohup, and for the background jobs of a script."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts(unasked=Phase.CANCELLING):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
