"""Whatever a program leaves in the place of its error file or its reports, its exit code is told."""

from __future__ import annotations

import pytest
from local_apps import app_of, lines_of

from torchx_core import AppState, Runner
from torchx_core.specs import NONE


@pytest.mark.parametrize(
    "make",
    [
        "mkfifo $F",
        "ln -s /dev/zero $F",
        "ln -s /dev/ptmx $F",
        "mkdir $F",
        "ln -s $F $F",
        "truncate -s 1T $F",
        "mkfifo $F.pipe; ln -s $F.pipe $F",
    ],
)
def test_an_error_file_that_is_no_file_of_a_sane_size(runner: Runner, make: str) -> None:
    """A pipe, a device, a directory or an endless file hangs nobody."""
    script = f"F=$TORCHELASTIC_ERROR_FILE; {make}; exit 5"
    status = runner.wait(runner.run(app_of("sh", "-c", script), "local_cwd"), timeout_s=30)
    assert status
    assert status.roles[0].replicas[0].exit_code == 5
    assert status.structured_error_msg == NONE


def test_reports_without_an_end(runner: Runner) -> None:
    """Who goes on reporting after the program has ended does not delay its end."""
    script = "setsid yes >>$TORCHX_REPORT_FILE & echo up; exit 5"
    status = runner.wait(runner.run(app_of("sh", "-c", script), "local_cwd"), timeout_s=30)
    assert status
    assert status.roles[0].replicas[0].exit_code == 5


@pytest.mark.parametrize("make", ["echo '{}' >$R", "ln -s /dev/zero $R", "mkfifo $R"])
def test_a_file_in_the_place_of_the_next_reports(runner: Runner, make: str) -> None:
    """What an attempt put where the next one reports is out of the way, and the report arrives."""
    script = f"""
if test $TORCHX_ATTEMPT = 0; then R=${{TORCHX_REPORT_FILE%-0}}-1; {make}; exit 5; fi
echo '{{"type": "result", "value": 7}}' >>$TORCHX_REPORT_FILE; echo told
"""
    handle = runner.run(app_of("sh", "-c", script.replace("${", "$${"), max_retries=1), "local_cwd")
    assert [line.text for line in lines_of(runner.follow(handle))] == ["told"]
    status = runner.status(handle)
    assert status
    assert (status.state, status.result) == (AppState.SUCCEEDED, 7)
