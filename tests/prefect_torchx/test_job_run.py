"""Runs of a job in a script, where no flow is; what flows add is in `test_blocks_in_flows.py`."""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from local_apps import app_of
from prefect.exceptions import TerminationSignal

from prefect_torchx import TorchXJob, TorchXJobRun
from prefect_torchx.naming import Holder
from prefect_torchx.resumption import Resumption
from torchx_core import AppDef, AppState, AppStatus, Runner
from torchx_core.errors import (
    AppStatusError,
    MalformedAppHandleException,
    UnknownAppException,
    UnknownReplicaError,
    WaitTimeoutError,
)
from torchx_core.testing import Exit, Hold, Print, ReportResult, Step, python_program, wait_until

pytestmark = pytest.mark.engine  # where a server was started by other tests, Prefect keeps a connection


def _app(*steps: Step, **role: object) -> AppDef:
    program, args = python_program(*steps)
    return app_of(program, *args, **role)


@pytest.fixture
def job_run(runner: Runner) -> TorchXJobRun:
    """Return a run whose app goes on until it is told to end."""
    run = TorchXJob(app=_app(Print("hello"), Hold())).trigger()
    wait_until(lambda: runner.status(run.handle).state is AppState.RUNNING, 240)  # type: ignore[union-attr]
    return run


@pytest.mark.usefixtures("runner")
def test_a_run_is_triggered_awaited_and_fetched() -> None:
    """As with any job of Prefect's."""
    run = TorchXJob(app=_app(Print("hello"), ReportResult({"a": 1}))).trigger()
    run.wait_for_completion()
    assert run.fetch_result() == {"a": 1}
    assert run.status().state is AppState.SUCCEEDED
    assert run.logs() == ["hello\n"]


@pytest.mark.usefixtures("runner")
def test_the_same_with_await() -> None:
    """In a coroutine the same names are awaited, and so are their twins."""

    async def main() -> Any:
        job = TorchXJob(app=_app(Print("hello"), ReportResult({"a": 1})))
        async with await job.atrigger() as run:
            await run.await_for_completion()
            twins = [await run.afetch_result(), await run.astatus(), await run.alogs()]
            assert twins == [await run.fetch_result(), await run.status(), await run.logs()]  # type: ignore[misc]
            again = await job.aattach(run.handle)
            await again.wait_for_completion()  # type: ignore[misc]
        return [*twins, await job.arun()]

    result, status, lines, second = asyncio.run(main())
    assert (result, status.state, lines, second) == ({"a": 1}, AppState.SUCCEEDED, ["hello\n"], {"a": 1})


@pytest.mark.usefixtures("runner")
def test_run_does_it_all() -> None:
    """It submits, follows and returns the result; when the app fails it raises, leading with what failed."""
    assert TorchXJob(app=_app(ReportResult(5))).run() == 5
    with pytest.raises(AppStatusError, match="replica r/0 failed with exit code 3"):
        TorchXJob(app=_app(Exit(3))).run()


@pytest.mark.usefixtures("runner")
def test_a_failure_is_raised_by_whoever_asks() -> None:
    """Waiting tells the failed replica's last lines; the result of a failed app cannot be had."""
    run = TorchXJob(app=_app(Print("bad input"), Exit(3))).trigger()
    with pytest.raises(AppStatusError, match=r"(?s)replica r/0 failed with exit code 3.*bad input"):
        run.wait_for_completion()
    with pytest.raises(AppStatusError, match="replica r/0 failed with exit code 3"):
        run.fetch_result()


@pytest.mark.usefixtures("runner")
def test_a_failure_leads_with_the_exception_of_a_program() -> None:
    """With its line and its traceback, in whatever way one asks, awaiting or not."""
    code = "def load():\n    raise KeyError('batch')\nprint('step 1', flush=True)\nload()"
    run = TorchXJob(app=app_of(sys.executable, "-c", code)).trigger()

    async def both() -> None:
        await run.await_for_completion()

    told: list[str] = []
    for ask in (run.wait_for_completion, run.fetch_result, lambda: asyncio.run(both())):
        with pytest.raises(AppStatusError) as caught:
            ask()
        told.append(str(caught.value))
    assert len(set(told)) == 1
    headline, *rest = told[0].split("\n")
    assert headline.endswith("KeyError: 'batch' (<string>:2, in load); app is FAILED")
    assert rest[0] == "  error: Traceback (most recent call last):"
    assert rest[-3:] == ["  last lines of r/0:", "    step 1", f"  app: {run.handle}"]


@pytest.mark.usefixtures("runner")
def test_a_failure_keeps_the_jobs_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """Wherever they stand in the app: not in the log, not in what is raised, not in what travels."""
    caplog.set_level(logging.INFO, logger="prefect_torchx")
    app = app_of("sh", "-c", 'echo "bad $1"; exit 3', "sh", '{"$secret": "KEY"}').to_dict()
    app["roles"][0]["args"][-1] = {"$secret": "KEY"}  # type: ignore[index]
    run = TorchXJob(app=app, secrets={"KEY": "hunter2"}).trigger()  # type: ignore[arg-type]
    with pytest.raises(AppStatusError, match="bad \\*\\*\\*") as waited:
        run.wait_for_completion()
    with pytest.raises(AppStatusError) as fetched:
        run.fetch_result()
    assert "[r/0] bad ***" in caplog.text
    assert "hunter2" not in f"{caplog.text} {waited.value} {fetched.value} {fetched.value.status.to_json()}"
    assert b"hunter2" not in pickle.dumps(run)


def test_there_is_no_result_before_the_end(job_run: TorchXJobRun) -> None:
    """It is an error to ask for it, not a wait and not a None."""
    with pytest.raises(WaitTimeoutError, match="RUNNING"):
        job_run.fetch_result()


def test_a_run_goes_on_in_another_process(job_run: TorchXJobRun, tmp_path: Path) -> None:
    """Pickled, it is the handle and who is responsible; the other process waits, and cancels in its name."""
    stored = tmp_path / "run.pickle"
    stored.write_bytes(pickle.dumps(job_run))
    assert stored.stat().st_size < 400
    program = f"import pickle; pickle.load(open({str(stored)!r}, 'rb')).cancel('the other one said so')"
    subprocess.run([sys.executable, "-c", program], check=True)
    with pytest.raises(AppStatusError, match="the other one said so"):
        job_run.wait_for_completion()
    assert job_run.status().state is AppState.CANCELLED


@pytest.mark.parametrize("twin", [False, True], ids=["cancel", "acancel"])
def test_cancel_ends_the_app(twin: bool, job_run: TorchXJobRun, runner: Runner) -> None:
    """With the reason given; a second cancel changes nothing."""
    asyncio.run(job_run.acancel("enough")) if twin else job_run.cancel("enough")
    status = runner.wait(job_run.handle, timeout_s=240)
    assert status
    assert (status.state, status.msg) == (AppState.CANCELLED, "enough")
    job_run.cancel("more than enough")
    assert job_run.status().msg == "enough"


@pytest.mark.parametrize("asynchronous", [False, True], ids=["with", "async with"])
@pytest.mark.parametrize(
    ("interruption", "end"),
    [
        (KeyboardInterrupt, AppState.CANCELLED),
        (ConnectionError, AppState.RUNNING),
        (None, AppState.RUNNING),
    ],
)
def test_the_block_ends_the_app_by_cause(
    asynchronous: bool,
    interruption: type[BaseException] | None,
    end: AppState,
    job_run: TorchXJobRun,
    runner: Runner,
) -> None:
    """Between trigger and wait too, Ctrl-C cancels the app; another error, or no error, leaves it alone."""
    if interruption is None:
        _enter(job_run, asynchronous, None)
    else:
        with pytest.raises(interruption):
            _enter(job_run, asynchronous, interruption)
    status = job_run.status() if end is AppState.RUNNING else runner.wait(job_run.handle, timeout_s=240)
    assert status
    assert status.state is end


def _enter(run: TorchXJobRun, asynchronous: bool, error: BaseException | type[BaseException] | None) -> None:
    def work() -> None:
        if error is not None:
            raise error

    async def main() -> None:
        async with run:
            work()

    if asynchronous:
        asyncio.run(main())
    else:
        with run:
            work()


def test_detached_from_it_goes_on(job_run: TorchXJobRun) -> None:
    """Whatever happens to whoever held it; its handle leads back to it."""
    handle = job_run.detach()
    with pytest.raises(KeyboardInterrupt):
        _enter(job_run, asynchronous=False, error=KeyboardInterrupt)
    assert TorchXJob(component="utils.echo").attach(handle).status().state is AppState.RUNNING


@pytest.mark.parametrize("interruption", [KeyboardInterrupt(), TerminationSignal(signal=signal.SIGTERM)])
def test_an_onlooker_leaves_the_app_alone(
    interruption: BaseException, job_run: TorchXJobRun, runner: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    """An interruption of his is not the app's, and not worth a word; what he says is."""
    caplog.set_level(logging.INFO, logger="prefect_torchx")
    onlooker = TorchXJob(component="utils.echo").attach(job_run.handle)
    with pytest.raises(type(interruption)):
        _enter(onlooker, asynchronous=False, error=interruption)
    assert job_run.handle not in caplog.text
    onlooker.cancel("said so")
    status = runner.wait(job_run.handle, timeout_s=240)
    assert status
    assert (status.state, status.msg) == (AppState.CANCELLED, "said so")


def test_who_was_overtaken_cancels_nothing(job_run: TorchXJobRun, runner: Runner) -> None:
    """A run that travelled is still the one of its try; the app of a later try is none of its business."""
    copy = pickle.loads(pickle.dumps(job_run))
    assert runner.take_over(job_run.handle, "somebody else", force=True)
    copy.cancel("too late")
    runner.cancel(job_run.handle, reason="in time")  # of two reasons the first one stays
    status = runner.wait(job_run.handle, timeout_s=240)
    assert status
    assert status.msg == "in time"


def test_a_run_is_left_once(job_run: TorchXJobRun, caplog: pytest.LogCaptureFixture) -> None:
    """An interruption of a wait in a block is dealt with by the wait; the end of the block adds nothing."""
    caplog.set_level(logging.INFO, logger="prefect_torchx")

    def shut_down(*_: object) -> None:
        raise TerminationSignal(signal=signal.SIGTERM)

    previous = signal.signal(signal.SIGALRM, shut_down)
    signal.setitimer(signal.ITIMER_REAL, 1)
    try:
        with pytest.raises(TerminationSignal), job_run:
            job_run.wait_for_completion()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert caplog.text.count("which goes on; a later try follows it") == 1
    assert job_run.status().state is AppState.RUNNING


@pytest.mark.usefixtures("runner")
def test_what_a_task_returned_under_an_older_release_is_read() -> None:
    """A flow run may be suspended while everything is upgraded; the fields were these five."""
    read = Resumption.__new__(Resumption)
    read.__setstate__(["local_cwd://torchx/a", None, 7, "cancel", ()])
    kept = Resumption(handle="local_cwd://torchx/a", limit_bytes=7, on_worker_shutdown="cancel")
    assert (read, pickle.loads(pickle.dumps(kept))) == (kept, kept)


@pytest.mark.parametrize("twin", [False, True])
def test_a_success_on_another_host_needs_no_app_here(twin: bool) -> None:
    """What is known of it does: its state and its result; an interruption finds nothing to end."""
    ended = AppStatus(state=AppState.SUCCEEDED, result={"loss": 1})
    me = Holder(flow_tries=(), task_run_id="t", task_try=1, call="c")
    elsewhere = Resumption(handle="local_cwd://torchx/elsewhere", token=me.token, ended=ended)

    async def awaited() -> Any:
        run = TorchXJobRun(elsewhere)
        await run.await_for_completion()
        return await run.afetch_result(), await run.astatus()

    def waited() -> Any:
        run = TorchXJobRun(elsewhere)
        run.wait_for_completion()
        return run.fetch_result(), run.status()

    assert (asyncio.run(awaited()) if twin else waited()) == ({"loss": 1}, ended)
    with pytest.raises(KeyboardInterrupt):
        _enter(TorchXJobRun(elsewhere), twin, KeyboardInterrupt)


def test_attach_refuses_what_is_not_there() -> None:
    """At once, not when somebody waits."""
    job = TorchXJob(component="utils.echo")
    with pytest.raises(MalformedAppHandleException):
        job.attach("train-x1")
    with pytest.raises(UnknownAppException):
        job.attach("local_cwd://torchx/train-x1")


@pytest.mark.usefixtures("runner")
def test_logs_are_a_replicas() -> None:
    """The first role's first replica, unless others are asked for."""
    run = TorchXJob(app=_app(Print("hello"), num_replicas=2)).trigger()
    run.wait_for_completion()
    assert (run.logs(), run.logs("r", 1)) == (["hello\n"], ["hello\n"])
    with pytest.raises(UnknownReplicaError, match="2"):
        run.logs("r", 2)


@pytest.mark.usefixtures("runner")
def test_a_deleted_app_is_missed(runner: Runner) -> None:
    """Every verb but cancel, which has nothing left to do, says so."""
    run = TorchXJob(app=app_of("true")).trigger()
    run.wait_for_completion()
    runner.delete(run.handle)
    for ask in (run.status, run.logs, run.fetch_result, run.wait_for_completion):
        with pytest.raises(UnknownAppException):
            ask()
    run.cancel()


def test_a_run_shows_its_handle(job_run: TorchXJobRun) -> None:
    """In a log or a debugger; who is responsible for the app is nobody's business there."""
    assert repr(job_run) == f"TorchXJobRun({job_run.handle!r})"
