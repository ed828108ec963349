"""What torchrun has printed of a rank's failure is found among what the ranks have printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.specs.torchelastic import RankFailure, find_rank_failures, without_summary

BORDER, SECTION = "=" * 60, "-" * 60
TRACE = ["Traceback (most recent call last):", '  File "train.py", line 7, in load', "ValueError: bad batch"]
UNTOLD = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
AGENT = [
    "Traceback (most recent call last):",
    '  File "/v/bin/torchrun", line 8, in <module>',
    "    sys.exit(main())",
    '  File "/v/lib/python3.11/site-packages/torch/distributed/launcher/api.py", line 383, in launch_agent',
    "    raise ChildFailedError(",
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
]


def entry(rank: int, code: int, *why: str, local: int = 0) -> list[str]:
    """Return how torchrun's summary tells of a rank."""
    signal = {-9: " (SIGKILL)", -15: " (SIGTERM)"}.get(code, "")
    return [
        f"[{local}]:",
        "  time      : 2026-11-25_03:15:09",
        "  host      : localhost",
        f"  rank      : {rank} (local_rank: {local})",
        f"  exitcode  : {code} (pid: 8025) {signal}",
        "  error_file: <N/A>",
        f"  traceback : {why[0]}",
        *(f"  {line}" for line in why[1:]),
    ]


def summary(root: list[str], others: list[str] | None = None) -> list[str]:
    """Return torchrun's last words."""
    failures = others or ["  <NO_OTHER_FAILURES>"]
    head = [*AGENT, BORDER, "train.py FAILED", SECTION, "Failures:", *failures, SECTION]
    return [*head, "Root Cause (first observed failure):", *root, BORDER]


def told(lines: list[str]) -> list[tuple[int | None, int, str]]:
    """Return rank, exit code and exception of each failure."""
    return [(f.rank, f.code, f.raised.exception if f.raised else "") for f in find_rank_failures(lines)]


def test_the_root_cause_comes_first() -> None:
    """With its traceback, where its program left one."""
    lines = summary(entry(3, 1, *TRACE), entry(2, -15, "Signal 15 (SIGTERM) received by PID 7"))
    assert told(["step 1", *lines]) == [(3, 1, "ValueError: bad batch"), (2, -15, "")]
    [first, _] = find_rank_failures(lines)
    assert first.raised is not None
    assert (first.raised.place, first.raised.text) == ("train.py:7, in load", "\n".join(TRACE))


@pytest.mark.parametrize("mark", ["[1]:", "[default1]:", "[trainer1]:[rank5]: ", "[rank5]: "])
def test_an_exception_that_only_the_log_has(mark: str) -> None:
    """A program without @record has printed it, and torchrun or PyTorch has marked whose it is."""
    noise = [f"[0]:{line}" for line in ["Traceback (most recent call last):", "KeyError: 'of rank 4'"]]
    lines = [*noise, *(mark + line for line in TRACE), *noise, *summary(entry(5, 1, UNTOLD, local=1))]
    assert told(lines) == [(5, 1, "ValueError: bad batch")]


def test_who_was_killed_has_raised_nothing() -> None:
    """What it printed before is not why."""
    lines = [
        *(f"[0]:{line}" for line in TRACE),
        *summary(entry(0, -9, "Signal 9 (SIGKILL) received by PID 1")),
    ]
    assert told(lines) == [(0, -9, "")]


@pytest.mark.parametrize(
    ("mark", "exception"), [("[1]:[rank5]: ", "ValueError: bad batch"), ("[rank4]: ", ""), ("[1]:", "")]
)
def test_who_was_aborted_while_it_ended_has_raised_what_it_did_not_catch(mark: str, exception: str) -> None:
    """PyTorch marks no other exception; any other may have been caught long before the abort."""
    aborted = entry(5, -6, "Signal 6 (SIGABRT) received by PID 1", local=1)
    assert told([*(mark + line for line in TRACE), *summary(aborted)]) == [(5, -6, exception)]


def test_of_a_long_summary_only_the_end_may_be_there() -> None:
    """The root cause stands there."""
    lines = summary(entry(3, 7, UNTOLD), entry(2, 1, *TRACE))
    cut = lines[lines.index("Root Cause (first observed failure):") :]
    assert told(cut) == [(3, 7, "")]
    assert without_summary(["before", *cut]) == ["before"]


def test_a_torchrun_that_was_ended_before_its_summary() -> None:
    """It had noticed which process failed, and how."""
    noticed = (
        "E1125 03:15:09 7087 torch/api.py:1002] failed (exitcode: -9) local_rank: 1 (pid: 8) of binary: /p"
    )
    assert find_rank_failures(["a", noticed, "b"]) == [RankFailure(rank=None, code=-9, raised=None)]


def test_torchrun_s_own_words_are_left_out() -> None:
    """Its traceback and its summary, which is told otherwise; nothing else."""
    lines = ["[0]:step 1", "W1125 a warning", *summary(entry(3, 1, *TRACE)), "[0]:after"]
    assert without_summary(lines) == ["[0]:step 1", "W1125 a warning", "[0]:after"]
    assert without_summary(["a", "b"]) == ["a", "b"]
    assert without_summary(AGENT) == []


def test_other_programs_have_no_ranks() -> None:
    """Nor does what only looks like torchrun's."""
    for lines in ([], ["[x]: y", "  rank      : 3 (local_rank: 1)"], TRACE, AGENT):
        assert find_rank_failures(lines) == []


PIECES = [
    *summary(entry(3, 1, *TRACE), entry(2, -15, UNTOLD)),
    "[0]:x",
    "[rank1]: y",
    "",
    "failed (exitcode: 1) local_rank",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=20), max_size=60))
def test_nothing_makes_it_fail(lines: list[str]) -> None:
    """Whatever a torchrun that dies prints, in whatever order."""
    assert len(find_rank_failures(lines)) <= len(lines)
    assert len(without_summary(lines)) <= len(lines)


@pytest.mark.parametrize(
    "line", ["[" + "1" * 60_000, "[" * 60_000, *AGENT, *entry(1, 1, "x"), BORDER, "Root Cause"]
)
def test_hostile_lines_take_no_longer_than_others(line: str) -> None:
    """Time grows with their length, not with its square."""
    lines = [line] * max(1, 200_000 // len(line))
    find_rank_failures(lines)
    without_summary(lines)
