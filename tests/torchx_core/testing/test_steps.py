"""Steps mean the same as objects, as words, and in a real process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.testing import (
    Exit,
    FailUntil,
    Hold,
    Print,
    PrintAttempt,
    PrintMany,
    Raise,
    ReportMetric,
    ReportProgress,
    ReportResult,
    Step,
    Use,
    python_program,
)
from torchx_core.testing.steps import read_step

STREAMS = st.sampled_from(["stdout", "stderr"])
NUMBERS = st.integers(0, 255)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(Print, st.text(), STREAMS, st.booleans()),
    st.builds(PrintMany, NUMBERS, STREAMS),
    st.builds(PrintAttempt, st.text(), NUMBERS, STREAMS),
    st.builds(Exit, NUMBERS),
    st.builds(Raise, st.sampled_from(["SIGKILL", "SIGSEGV"])),
    st.builds(Hold, st.booleans()),
    st.builds(Use, FLOATS, NUMBERS),
    st.builds(FailUntil, NUMBERS, NUMBERS),
    st.builds(ReportProgress, FLOATS, st.text()),
    st.builds(ReportMetric, st.text(st.characters(exclude_characters=":")), FLOATS, st.none() | NUMBERS),
    st.builds(ReportResult, st.none() | st.text() | st.lists(NUMBERS) | st.dictionaries(st.text(), FLOATS)),
)


@given(STEPS)
def test_every_step_is_a_word_that_can_be_read_back(step: Step) -> None:
    """A command line can hold any program."""
    assert read_step(str(step)) == step


@pytest.mark.parametrize(
    "word", ["", "dance", "exit:", "exit:x", "hold:on", "use:x", "use:1:much", "lines:many", "result:{"]
)
def test_other_words_are_refused(word: str) -> None:
    """With the word in the message."""
    with pytest.raises(ValueError, match="step"):
        read_step(word)


def play(*steps: Step, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the steps as a process of their own, with nothing but these variables."""
    entrypoint, args = python_program(*steps, python=sys.executable)
    argv = [entrypoint, *(arg.replace("$$", "$") for arg in args)]
    return subprocess.run(argv, capture_output=True, text=True, check=False, env={"PYTHONUTF8": "1", **env})


def test_a_program_prints_and_exits() -> None:
    """On the stream it is told to, exactly what it is told to."""
    done = play(Print("$HOME é"), Print("oops", "stderr"), PrintMany(2), Print("end", eol=False), Exit(3))
    assert (done.stdout, done.stderr, done.returncode) == ("$HOME é\n0\n1\nend", "oops\n", 3)


def test_a_program_reports_as_an_app_does(tmp_path: Path) -> None:
    """In the lines that `torchx_core.runtime` documents."""
    file = tmp_path / "reports"
    done = play(
        ReportProgress(0.5, "a:b"),
        ReportMetric("loss", 0.25),
        ReportResult({"x": 1}),
        TORCHX_REPORT_FILE=str(file),
    )
    assert done.returncode == 0, done.stderr
    reports = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(report.pop("time") <= time.time() for report in reports)
    assert reports == [
        {"type": "progress", "fraction": 0.5, "message": "a:b"},
        {"type": "metric", "name": "loss", "value": 0.25, "step": None},
        {"type": "result", "value": {"x": 1}},
    ]


@pytest.mark.parametrize(("attempt", "code"), [("0", 4), ("1", 4), ("2", 0)])
def test_a_program_fails_until_an_attempt(attempt: str, code: int) -> None:
    """The backend tells it which one it is."""
    assert play(FailUntil(2, 4), TORCHX_ATTEMPT=attempt).returncode == code


def test_a_program_dies_of_a_signal() -> None:
    """A real one."""
    assert play(Raise("SIGKILL")).returncode == -9
