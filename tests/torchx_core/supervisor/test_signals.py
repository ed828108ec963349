"""A signal has one name, whoever tells of it."""

from __future__ import annotations

import signal

import pytest

from torchx_core.supervisor.signals import exit_of, signal_name, signal_number


@pytest.mark.parametrize("number", range(1, 65))
def test_every_signal_has_a_name_that_can_be_read_back(number: int) -> None:
    """Real-time signals have one too, and the two that the C library keeps for itself."""
    assert signal_number(signal_name(number)) == number


def test_a_real_time_signal_is_named_by_its_distance() -> None:
    """Python has names for the first and the last of them only."""
    assert signal_name(signal.SIGRTMIN + 1) == "SIGRTMIN+1"
    assert signal_name(signal.SIGRTMIN) == "SIGRTMIN"


@pytest.mark.parametrize(
    "text", ["", "SIG", "SIGRTMIN+", "SIGRTMIN+x", "SIGRTMINx1", "signal 35", "9", "SIGRTMIN1"]
)
def test_another_text_is_no_signal(text: str) -> None:
    """What an upstream scheduler may call a signal is not guessed at."""
    assert signal_number(text) is None


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (0, (0, None)),
        (128, (128, None)),
        (143, (None, "SIGTERM")),
        (163, (None, "SIGRTMIN+1")),
        (192, (None, "SIGRTMAX")),
        (193, (193, None)),
        (255, (255, None)),
        (None, (None, None)),
    ],
)
def test_one_number_is_exit_code_or_signal(code: int | None, expected: tuple[int | None, str | None]) -> None:
    """As shells and containers tell it."""
    assert exit_of(code) == expected
