from __future__ import annotations

import pytest

from torchx_core.specs import AppState, is_started, is_terminal


def test_values() -> None:
    """The numbers are TorchX's and never change: they are stored."""
    assert [(s.name, int(s)) for s in AppState] == [
        ("UNSUBMITTED", 0),
        ("SUBMITTED", 1),
        ("PENDING", 2),
        ("RUNNING", 3),
        ("SUCCEEDED", 4),
        ("FAILED", 5),
        ("CANCELLED", 6),
        ("UNKNOWN", 7),
    ]


def test_text() -> None:
    """A state prints as its name, and shows its number to developers."""
    assert f"{AppState.RUNNING} {AppState.RUNNING!r}" == "RUNNING RUNNING (3)"


@pytest.mark.parametrize("state", AppState)
def test_terminal_and_started(state: AppState) -> None:
    """Terminal states are the three ends; started are those and RUNNING."""
    assert is_terminal(state) == (4 <= state <= 6)
    assert is_started(state) == (3 <= state <= 6)
