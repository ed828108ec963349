"""What a replica has reported, as events."""

from __future__ import annotations

import json

import pytest

from torchx_core.schedulers import Progress
from torchx_core.schedulers.reports import read_reports

BEGAN = 1_000.0


@pytest.mark.parametrize(
    ("written", "time"),
    [
        (1_020.5, 1_020.5),
        (1_020, 1_020.0),
        (999.0, BEGAN),
        (-1, BEGAN),
        (True, BEGAN),
        ("2026-11-28T20:00:00Z", BEGAN),
        (None, BEGAN),
        (float("nan"), BEGAN),
        (float("inf"), BEGAN),
        (10**400, BEGAN),
        (253_402_300_800, BEGAN),
    ],
)
def test_a_report_has_the_time_that_its_program_wrote(written: object, time: float) -> None:
    """A report without a time, or with one that cannot be, has the time at which its attempt began."""
    line = json.dumps({"type": "progress", "fraction": 0.5, "time": written}).encode()
    (report,) = read_reports([line], "trainer", 0, 1, BEGAN)
    assert report == Progress(role="trainer", replica=0, attempt=1, fraction=0.5, message="", time=time)


def test_what_is_no_report_is_said_and_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """A reader of reports goes on behind a line that is none."""
    lines = [b"nonsense", b"  ", b'{"type": "progress", "fraction": 1}']
    assert [type(report) for report in read_reports(lines, "trainer", 3, 0, BEGAN)] == [Progress]
    assert "replica trainer/3: not a report: not JSON" in caplog.text
