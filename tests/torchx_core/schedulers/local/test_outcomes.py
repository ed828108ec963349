"""Exit codes, retries, gangs, results: how an app ends and what is told of it."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_apps import app_of, lines_of

from torchx_core import AppDef, AppState, Role, Runner, get_runner
from torchx_core.errors import AppStatusError, InvalidAppError
from torchx_core.schedulers import Metric, Progress, ReplicaChanged, Result
from torchx_core.specs import AppStatus, CfgVal, RetryPolicy, macros


def ended(runner: Runner, handle: str) -> AppStatus:
    """Wait and return the status."""
    status = runner.wait(handle, timeout_s=240)
    assert status is not None
    return status


def test_every_exit_code_is_exact(runner: Runner) -> None:
    """0 to 255 arrive as they are; 137 is not SIGKILL."""
    roles = [
        Role(name=f"r{i}", image="", entrypoint="sh", args=["-c", f"exit {i}"])
        for i in (0, 1, 2, 126, 127, 137, 255)
    ]
    for role in roles:
        status = ended(runner, runner.run(AppDef("one", [role]), "local_cwd"))
        replica = status.roles[0].replicas[0]
        assert (replica.exit_code, replica.signal) == (int(role.name[1:]), None)
        assert status.state == (AppState.SUCCEEDED if role.name == "r0" else AppState.FAILED)


def test_of_programs_started_together_one_cannot_run(runner: Runner, tmp_path: Path) -> None:
    """The others, begun before it and after it, are ended as those of any app that fails."""
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF, but no program")
    program.chmod(0o700)
    waits = ["-c", "trap 'echo told; exit 5' TERM; sleep 600 & wait"]
    roles = [
        Role(name="before", image="", entrypoint="sh", args=waits, num_replicas=2),
        Role(name="broken", image="", entrypoint=str(program), num_replicas=2),
        Role(name="after", image="", entrypoint="sh", args=waits, num_replicas=20),
    ]
    handle = runner.run(AppDef("mixed", roles), "local_cwd")
    status = ended(runner, handle)
    assert status.state is AppState.FAILED
    assert "broken/0 failed: cannot execute" in status.msg
    started: set[tuple[str, int]] = set()
    told: set[tuple[str, int]] = set()
    for batch in runner.follow(handle):
        told |= {(line.role, line.replica) for line in batch.lines() if line.text == "told"}
        for event in batch.events:
            if isinstance(event, ReplicaChanged) and event.state is AppState.RUNNING:
                started.add((event.role, event.replica))
    codes = {(each.role, each.id): each.exit_code for role in status.roles for each in role.replicas}
    assert {("before", 0), ("before", 1)} <= started
    assert {each for each in codes if codes[each] == 5} == told <= started
    assert {each for each in codes if codes[each] is not None} <= started


def test_a_retry_while_others_wait_to_be_started_starts_nobody_twice(runner: Runner, tmp_path: Path) -> None:
    """The first replicas fail, and are started again, before the last ones had their turn."""
    program = f'echo "$TORCHX_ATTEMPT $0" >> {tmp_path}/began; [ "$0" -gt 3 ] || [ $TORCHX_ATTEMPT = 4 ]'
    args = ("-c", program, macros.replica_id)
    app = app_of("sh", *args, num_replicas=60, max_retries=4, retry_policy=RetryPolicy.REPLICA)
    status = ended(runner, runner.run(app, "local_cwd"))
    assert status.state is AppState.SUCCEEDED
    began = sorted((tmp_path / "began").read_text().split("\n")[:-1])
    retried = [f"{attempt} {replica}" for replica in range(4) for attempt in range(1, 5)]
    assert began == sorted([*(f"0 {replica}" for replica in range(60)), *retried])


@pytest.mark.parametrize("limits", [(), ("timeout_s",), ("deadline",), ("timeout_s", "deadline")], ids=str)
def test_a_program_knows_when_its_time_is_over(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, limits: tuple[str, ...]
) -> None:
    """By whichever limit comes first, and never by that of an app around this one."""
    monkeypatch.setenv("TORCHX_DEADLINE", "1")
    began = time.time()
    known: dict[str, CfgVal] = {"timeout_s": 900, "deadline": began + 600}
    cfg = {name: known[name] for name in limits}
    handle = runner.run(app_of("sh", "-c", "echo $$TORCHX_DEADLINE"), "local_cwd", cfg)
    ended(runner, handle)
    [told] = [line.text for line in lines_of(runner.follow(handle))]
    if "deadline" in limits:
        assert float(told) == pytest.approx(began + 600, abs=0.01)
    elif limits:
        assert began + 900 <= float(told) <= time.time() + 900
    else:
        assert told == ""


SUICIDE = """
import os, resource, signal, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
number = int(sys.argv[1])
if number not in (signal.SIGKILL, signal.SIGSTOP):
    signal.signal(number, signal.SIG_DFL)
os.kill(os.getpid(), number)
"""
HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


@pytest.mark.parametrize("number", sorted(signal.valid_signals() - HARMLESS - STOPPING))
def test_every_deadly_signal_is_named(runner: Runner, number: int) -> None:
    """A replica killed by a signal says which; aliases and real-time signals have their proper names."""
    app = app_of(sys.executable, "-S", "-c", SUICIDE, str(int(number)))
    replica = ended(runner, runner.run(app, "local_cwd")).roles[0].replicas[0]
    known = number in set(signal.Signals)
    name = signal.Signals(number).name if known else f"SIGRTMIN+{number - signal.SIGRTMIN}"
    assert (replica.exit_code, replica.signal) == (None, name)


def test_failure_message_leads_with_what_failed(runner: Runner) -> None:
    """raise_for_status begins with the replica and its exit code and says where the logs are."""
    app = app_of("sh", "-c", "test $0 = 1 && exit 3; sleep 600", "${replica_id}", num_replicas=3)
    status = ended(runner, runner.run(app, "local_cwd"))
    with pytest.raises(AppStatusError) as caught:
        status.raise_for_status()
    first = str(caught.value).splitlines()[0]
    assert "r/1" in first
    assert "exit code 3" in first
    assert status.roles[0].replicas[1].log_dir in str(caught.value)


def test_gang_stop(runner: Runner) -> None:
    """One replica failed for good ends the others, which count as cancelled."""
    app = app_of("sh", "-c", "test $0 = 1 && exit 3; sleep 600", "${replica_id}", num_replicas=3)
    status = ended(runner, runner.run(app, "local_cwd"))
    assert status.state == AppState.FAILED
    assert [r.state for r in status.roles[0].replicas] == [
        AppState.CANCELLED,
        AppState.FAILED,
        AppState.CANCELLED,
    ]
    assert [r.exit_code for r in status.roles[0].replicas] == [None, 3, None]


FAIL_ONCE = (
    'echo "attempt $TORCHX_ATTEMPT of $0"; test $0 = 1 && test $TORCHX_ATTEMPT -lt 2 && exit 9; sleep 0.4'
)


def test_replica_retries(runner: Runner) -> None:
    """REPLICA starts the failed replica again, up to its retries, and leaves the other alone."""
    app = app_of(
        "sh",
        "-c",
        FAIL_ONCE,
        "${replica_id}",
        num_replicas=2,
        max_retries=2,
        retry_policy=RetryPolicy.REPLICA,
    )
    handle = runner.run(app, "local_cwd")
    lines = lines_of(runner.follow(handle))
    status = ended(runner, handle)
    assert status.state == AppState.SUCCEEDED
    assert status.num_restarts == 2
    assert [r.attempt for r in status.roles[0].replicas] == [0, 2]
    assert sorted((x.replica, x.attempt, x.text) for x in lines) == [
        (0, 0, "attempt 0 of 0"),
        (1, 0, "attempt 0 of 1"),
        (1, 1, "attempt 1 of 1"),
        (1, 2, "attempt 2 of 1"),
    ]


def test_application_retries(runner: Runner) -> None:
    """APPLICATION restarts everything together."""
    app = app_of("sh", "-c", FAIL_ONCE, "${replica_id}", num_replicas=2, max_retries=2)
    handle = runner.run(app, "local_cwd")
    status = ended(runner, handle)
    assert status.state == AppState.SUCCEEDED
    assert status.num_restarts == 2
    assert [r.attempt for r in status.roles[0].replicas] == [2, 2]


def test_retries_run_out(runner: Runner) -> None:
    """When the last attempt fails the app is FAILED with that attempt's exit code."""
    handle = runner.run(app_of("sh", "-c", "exit 5", max_retries=1), "local_cwd")
    changes = [e for b in runner.follow(handle) for e in b.events if isinstance(e, ReplicaChanged)]
    status = ended(runner, handle)
    assert (status.state, status.num_restarts) == (AppState.FAILED, 1)
    assert [(c.attempt, c.state, c.exit_code) for c in changes] == [
        (0, AppState.RUNNING, None),
        (0, AppState.FAILED, 5),
        (1, AppState.RUNNING, None),
        (1, AppState.FAILED, 5),
    ]


REPORTER = """
from torchx_core import runtime
runtime.report_progress(0.5, "half")
runtime.report_metric("loss", 0.25, step=3)
runtime.report_result({"accuracy": 0.9, "text": "x" * 10000})
"""


def test_reports_flow_and_the_result_stays(runner: Runner) -> None:
    """Progress and metrics arrive in the stream, the result also in the status for ever."""
    root = str(Path(__file__).resolve().parents[4])
    handle = runner.run(app_of(sys.executable, "-c", REPORTER, env={"PYTHONPATH": root}), "local_cwd")
    events = [e for b in runner.follow(handle) for e in b.events]
    progress = [e for e in events if isinstance(e, Progress)]
    metric = [e for e in events if isinstance(e, Metric)]
    result = [e for e in events if isinstance(e, Result)]
    assert [(p.fraction, p.message) for p in progress] == [(0.5, "half")]
    assert [(x.name, x.value, x.step) for x in metric] == [("loss", 0.25, 3)]
    assert [r.value for r in result] == [{"accuracy": 0.9, "text": "x" * 10000}]
    assert ended(runner, handle).result == result[0].value


@pytest.mark.parametrize(
    "line",
    ["not json", "[]", '{"type": "dance"}', '{"type": "metric", "name": "x", "value": "high"}', "\\377"],
)
def test_a_bad_report_is_named_in_the_log_and_harms_nothing(runner: Runner, line: str) -> None:
    """What is no report is refused in the replica's own log; the next one counts."""
    good = '{"type": "result", "value": 1}'
    handle = runner.run(
        app_of(
            "sh", "-c", f"printf '{line}\\n' >> $TORCHX_REPORT_FILE; echo '{good}' >> $TORCHX_REPORT_FILE"
        ),
        "local_cwd",
    )
    lines = lines_of(runner.follow(handle))
    assert any(x.text.startswith("torchx: report ignored") for x in lines)
    assert ended(runner, handle).result == 1


def test_torchelastic_error_file_leads_the_message(runner: Runner) -> None:
    """What the program wrote about its failure is the structured error and is shown first."""
    error = {"message": {"message": "CUDA out of luck", "extraInfo": {"timestamp": "1", "py_callstack": ""}}}
    handle = runner.run(
        app_of("sh", "-c", f"echo '{json.dumps(error)}' > $TORCHELASTIC_ERROR_FILE; exit 1"), "local_cwd"
    )
    status = ended(runner, handle)
    assert json.loads(status.structured_error_msg) == error
    assert "CUDA out of luck" in status.failure_summary()


@pytest.mark.parametrize(
    "content", ["not json", "x" * 2_000_000, "\\377\\376"], ids=["text", "huge", "bytes"]
)
def test_a_broken_error_file_breaks_nothing(runner: Runner, content: str, tmp_path: Path) -> None:
    """Status, wait and raise_for_status work whatever lies in the error file."""
    (tmp_path / "content").write_text(content)
    script = f"cp {tmp_path / 'content'} $TORCHELASTIC_ERROR_FILE; exit 1"
    status = ended(runner, runner.run(app_of("sh", "-c", script), "local_cwd"))
    assert status.roles[0].replicas[0].exit_code == 1
    assert "exit code 1" in status.failure_summary()


HOSTILE = ["a'; echo", 'q"uote', "..", ".hidden", "ünïcode ☃", "-rf", "a b", "%2e", "$HOME", "x" * 150]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_role_names(runner: Runner, state_dir: Path, name: str) -> None:
    """Whatever a role is called, it runs, its logs lie in the app's directory, its lines carry its name."""
    handle = runner.run(app_of("echo", "hi", name=name), "local_cwd")
    assert [(x.role, x.text) for x in lines_of(runner.follow(handle))] == [(name, "hi")]
    log_dir = Path(ended(runner, handle).roles[0].replicas[0].log_dir)
    assert state_dir.resolve() in log_dir.resolve().parents


@pytest.mark.parametrize("name", ["new\nline", "../../etc", "nul\0", ""])
def test_role_names_that_no_log_line_could_carry(runner: Runner, name: str) -> None:
    """A name with a slash or a control character is refused before anything is submitted."""
    with pytest.raises(InvalidAppError, match=r"roles\[0\].name"):
        runner.run(app_of("echo", "hi", name=name), "local_cwd")
    assert runner.list("local_cwd") == []


def test_undecodable_bytes_in_arguments_and_environment(runner: Runner) -> None:
    """Bytes that are no UTF-8 reach the program as they are (PEP 383)."""
    code = "import os, sys; os.write(1, os.fsencode(sys.argv[1]) + os.environb[b'ODD'])"
    odd = os.fsdecode(b"\xff\xfe")
    handle = runner.run(app_of(sys.executable, "-c", code, odd, env={"ODD": odd}), "local_cwd")
    log_dir = ended(runner, handle).roles[0].replicas[0].log_dir
    assert Path(log_dir, "stdout.log").read_bytes() == b"\xff\xfe\xff\xfe"


@settings(max_examples=15, deadline=None)
@given(text=st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=50))
def test_arguments_arrive_as_they_are(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    """No argument is interpreted by a shell or changed by an encoding."""
    escaped = text.replace("$", "$$")  # macros: a dollar sign is written twice
    code = "import sys, os; sys.stdout.buffer.write(os.fsencode(sys.argv[1]))"
    with get_runner("s", state_dir=str(tmp_path_factory.mktemp("state"))) as runner:
        lines = lines_of(runner.follow(runner.run(app_of(sys.executable, "-c", code, escaped), "local_cwd")))
    assert "".join(x.text + "\n" * x.eol for x in lines) == text
