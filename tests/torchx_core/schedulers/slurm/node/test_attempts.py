"""The attempts of one replica."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from torchx_core.schedulers.slurm.node.attempts import Attempt, Attempts

GOOD, BAD = {"code": 0, "told": False}, {"code": 3, "told": False}


def begin(attempts: Attempts, end: dict[str, Any] | None = None, *, run: int = 0) -> Attempt:
    """Begin an attempt, and end it if so wished."""
    start: dict[str, Any] = {"run": run}
    number = attempts.claim(start)
    if end is not None:
        attempts.close(number, end)
    return Attempt(number, start, end)


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    """A replica that has not begun."""
    return Attempts(str(tmp_path / "w" / "0"))


def test_a_task_that_dies_before_its_attempt_begins_has_claimed_nothing(attempts: Attempts) -> None:
    """The next task begins with the same number."""
    Path(attempts.folder(0)).mkdir(parents=True)
    assert begin(attempts).number == 0
    assert begin(attempts).number == 1


def test_two_tasks_never_have_the_same_number(attempts: Attempts, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that another overtakes between looking and claiming takes the next."""
    other = Attempts(str(Path(attempts.folder(0)).parent))
    link, overtaken = os.link, list[Attempt]()

    def overtake(source: str, target: str) -> None:
        monkeypatch.setattr(os, "link", link)
        overtaken.append(begin(other))
        link(source, target)

    monkeypatch.setattr(os, "link", overtake)
    assert (begin(attempts).number, overtaken[0].number) == (1, 0)
    assert [attempt.number for attempt in attempts.begun()] == [0, 1]


def test_a_claim_whose_answer_was_lost_is_a_claim(
    attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An NFS client asks again, and the server says that the file exists, which it has just made."""
    link = os.link

    def answers_twice(source: str, target: str) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", answers_twice)
    assert begin(attempts).number == 0


def test_what_a_later_run_of_the_job_made_is_not_mistaken_for_ours(attempts: Attempts) -> None:
    """A later run does not take ours for its own, though a task that lags may claim a number in between."""
    first, second = begin(attempts, BAD), begin(attempts, GOOD, run=1)
    lagging = begin(attempts)
    assert attempts.begun() == [first, second, lagging]
    assert (attempts.latest(1), attempts.latest(0), attempts.latest(2)) == (second, lagging, None)
    assert [(a.failed, a.succeeded) for a in attempts.begun()] == [
        (True, False),
        (False, True),
        (False, False),
    ]


@pytest.mark.parametrize("code", [0, 3])
def test_what_was_told_to_end_has_neither_failed_nor_succeeded(attempts: Attempts, code: int) -> None:
    """Whatever its program made of it."""
    ended = begin(attempts, {"code": code, "told": True})
    assert (ended.failed, ended.succeeded) == (False, False)
