"""The judge of a task's log: a good one is let pass, and each kind of breach is told by its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from task_log import judge_task_log
from truth import Copy, Said
from witness import line

WHO = "r/0/0@a"


def _copy(*, sure: int = 4) -> Copy:
    """Return an attempt that printed four lines, of which the last ones may not have left it."""
    said = [
        Said("stdout", 0, _text("stdout", 0), eol=True, sure=sure > 0, whole=True),
        Said("stderr", 0, _text("stderr", 0, "bar"), eol=True, sure=sure > 1, whole=True),
        Said("stdout", 1, _text("stdout", 1), eol=True, sure=sure > 2, whole=True),
        Said("stdout", 2, _text("stdout", 2), eol=False, sure=sure > 3, whole=True),
    ]
    return Copy("r", 0, 0, 0, who=WHO, pid=1, said=said)


def _text(stream: str, number: int, kind: str = "plain") -> str:
    return line(WHO, stream, number, kind, 10).decode()


def _good_log() -> list[str]:
    return [
        "submitted local_cwd://s/a",
        "[r/0] is RUNNING",
        f"[r/0] {_text('stdout', 0)}",
        "[r/0] 0%",
        f"[r/0] {_text('stdout', 1)}",
        f"[r/0] {_text('stdout', 2)}",
        "[r/0] is SUCCEEDED",
    ]


def _names(log: list[str], copy: Copy | None = None) -> set[str]:
    return {found.name for found in judge_task_log([copy or _copy()], log)}


def test_a_good_log_has_no_violation() -> None:
    """Lines of the engine's own between the app's are let pass."""
    assert _names(_good_log()) == set()


def test_what_may_not_have_left_the_program_may_be_missing() -> None:
    """It was killed while it wrote."""
    assert _names(_good_log()[:4], _copy(sure=2)) == set()


SPOILS: dict[str, tuple[Callable[[list[str]], object], str]] = {
    "a line is gone": (lambda log: log.pop(2), "lost-line"),
    "a bar is gone": (lambda log: log.pop(3), "lost-line"),
    "a line comes again": (lambda log: log.insert(5, log[2]), "repeated-line"),
    "a bar comes again": (lambda log: log.insert(5, log[3]), "repeated-line"),
    "another replica's": (lambda log: log.append(log.pop(4).replace("[r/0]", "[r/1]")), "wrong-replica"),
    "another app's": (lambda log: log.append("[r/0] r/0/0@b stdout 0 plain 0 x"), "strange-line"),
    "nobody's": (lambda log: log.append("[r/0] of nobody"), "strange-line"),
    "two change places": (lambda log: log.insert(5, log.pop(4)), "disorder"),
}


@pytest.mark.parametrize("what", SPOILS)
def test_each_breach_has_its_name(what: str) -> None:
    """Whatever was done to the log."""
    log = _good_log()
    spoil, name = SPOILS[what]
    spoil(log)
    assert name in _names(log)


def test_lines_of_one_millisecond_may_change_places_where_airflow_merges_files() -> None:
    """It puts records of several files in order by the millisecond; lost and repeated lines are told."""
    log = _good_log()
    log[2], log[4] = log[4], log[2]
    assert [each.name for each in judge_task_log([_copy()], log)] == ["disorder"]
    assert judge_task_log([_copy()], log, is_merged=True) == []
    names = {each.name for each in judge_task_log([_copy()], [*log, log[2]], is_merged=True)}
    assert names == {"repeated-line"}
