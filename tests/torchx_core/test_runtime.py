"""What an app reports from inside."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forks import forking

from torchx_core.runtime import REPORT_FILE_VARIABLE, report_metric, report_progress, report_result
from torchx_core.supervisor.reports import ReportPipe, parse_report
from torchx_core.testing import wait_until

WRITER = """
import sys
from torchx_core.runtime import report_result
for i in range(int(sys.argv[2])):
    report_result({"writer": int(sys.argv[1]), "i": i, "padding": sys.argv[1] * 10_000})
"""


@pytest.fixture
def report_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Inside an app: the file that its reports go to."""
    path = tmp_path / "reports"
    monkeypatch.setenv(REPORT_FILE_VARIABLE, str(path))
    return path


def test_outside_an_app_nothing_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that reports runs anywhere and leaves nothing behind."""
    monkeypatch.delenv(REPORT_FILE_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    report_progress(0.5)
    report_metric("loss", 1.0)
    report_result({})
    assert list(tmp_path.iterdir()) == []


def test_inside_an_app_each_report_is_a_line(report_file: Path) -> None:
    """As documented, for readers in any language."""
    before = time.time()
    report_progress(0.5, "half way")
    report_metric("loss", 1, step=3)
    report_result({"accuracy": 0.97})
    reports = [json.loads(line) for line in report_file.read_text().splitlines()]
    times = [report.pop("time") for report in reports]
    moments = [before, *times, time.time()]
    assert moments == sorted(moments)
    assert reports == [
        {"type": "progress", "fraction": 0.5, "message": "half way"},
        {"type": "metric", "name": "loss", "value": 1.0, "step": 3},
        {"type": "result", "value": {"accuracy": 0.97}},
    ]


def test_a_process_forked_amid_a_report_blocks_no_other(
    report_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A data loader that another thread starts has the report file open, for as long as it runs."""
    write = os.write
    with forking() as fork:

        def write_and_fork(fd: int, data: memoryview) -> int:
            fork()
            return write(fd, data)

        with monkeypatch.context() as patch:
            patch.setattr("torchx_core.runtime.os.write", write_and_fork)
            report_progress(0.5)
        fd = os.open(report_file, os.O_RDONLY)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)  # or raises
        os.close(fd)


def test_what_is_written_is_what_the_supervisor_reads(report_file: Path) -> None:
    """Newlines, quotes and other letters in a message stay one line."""
    report_progress(1, 'a\n"b" ü')
    report_metric("lr", 1e-5)
    assert [parse_report(line) for line in report_file.read_bytes().splitlines()] == [
        {"type": "progress", "fraction": 1.0, "message": 'a\n"b" ü'},
        {"type": "metric", "name": "lr", "value": 1e-5, "step": None},
    ]


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_is_between_0_and_1(report_file: Path, fraction: float) -> None:
    """Anything else is the program's mistake, told where it was made."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        report_progress(fraction)
    assert not report_file.exists()


def test_a_result_is_json_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that cannot be handed back fails also where nobody listens."""
    monkeypatch.delenv(REPORT_FILE_VARIABLE, raising=False)
    with pytest.raises(TypeError):
        report_result({1, 2})


def test_long_reports_of_several_processes_do_not_mix(report_file: Path) -> None:
    """Each of them is longer than what a pipe keeps together by itself."""
    pipe = ReportPipe(str(report_file))
    writers, each = 4, 10
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(number), str(each)]) for number in range(writers)
    ]
    lines: list[bytes] = []

    def all_read() -> bool:
        lines.extend(pipe.read())
        return len(lines) == writers * each

    wait_until(all_read, timeout_s=240)
    pipe.pipe.close()
    for process in processes:
        assert process.wait() == 0
    values = [parse_report(line)["value"] for line in lines]
    for number in range(writers):
        mine = [{"writer": number, "i": i, "padding": str(number) * 10_000} for i in range(each)]
        assert [value for value in values if value in mine] == mine
