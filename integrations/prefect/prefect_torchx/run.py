"""Runs an app for a Prefect flow or task."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from prefect_torchx import _engine
from prefect_torchx.hold import Hold, Request
from prefect_torchx.logs import RunLog, make_mask
from prefect_torchx.naming import Holder, Work
from torchx_core.errors import AppStatusError
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppDef, AppState, CfgVal, snapshot_app

__all__ = ["run_app"]

DEFAULT_LEASE_S = 600.0


def run_app(
    app: AppDef,
    scheduler: str = "local_cwd",
    cfg: Mapping[str, CfgVal] | None = None,
    *,
    session: str | None = None,
    idempotency_key: str | None = None,
) -> Any:  # noqa: ANN401  (any JSON value; the caller knows which)
    """Run an app to its end, show its output in the run's log, return the result that it reported.

    For the body of a flow or a task, also a submitted or mapped one; outside of Prefect it just runs the app.
    It blocks: from an async flow, call a sync task that calls it.

    The app is submitted once. When Prefect runs the same flow run or task again, the call finds the app of
    its predecessor by its request: it follows a running app, returns the result of a succeeded one, and
    submits anew what has failed. So requests must not differ from try to try.

    Cancelling the flow run, ``timeout_seconds`` and Ctrl-C cancel the app. Everything else leaves it running:
    a worker that ends, an exception on the way, a flow run that is to run again. If nobody comes for it, it
    ends itself after the ``lease_s`` of its cfg.

    Args:
        app: What to run; an ``AppDef`` of ours or of TorchX.
        scheduler: Where.
        cfg: Options of the scheduler. ``lease_s`` is 600 seconds unless given, where the scheduler has it.
        session: Apps of one session are listed together; None for ``torchx``.
        idempotency_key: Names the app instead of the run and the request: every call with this key, in any
            run, is after the same app.

    Returns:
        The last value that the app reported with `torchx_core.runtime.report_result`; None when it did not.

    Raises:
        InvalidInputError: The app or the cfg is wrong; nothing was submitted.
        UnknownSchedulerException: There is no such scheduler.
        AppStatusError: The app ended otherwise than SUCCEEDED; the message leads with what failed.
        OvertakenError: A later try of this run has the app; it is left alone.
    """
    private = snapshot_app(app)
    caller = _engine.Caller()
    log = RunLog(_engine.emit, make_mask(private))
    with get_runner(session) as runner:
        request = _request(runner, private, scheduler, cfg or {}, caller, idempotency_key)
        hold = Hold(runner, request, _holder(caller), log, caller.check)
        try:
            status = hold.run()
        except _engine.INTERRUPTIONS as interruption:
            _leave(hold, caller, caller.why_cancel(interruption), log)
            raise
        finally:
            log.flush()
    if status.state is not AppState.SUCCEEDED:
        raise AppStatusError(status, log.failure(status, str(hold.handle)))
    return status.result


def _request(
    runner: Runner,
    app: AppDef,
    scheduler: str,
    cfg: Mapping[str, CfgVal],
    caller: _engine.Caller,
    idempotency_key: str | None,
) -> Request:
    values = dict(cfg)
    if runner.scheduler_run_opts(scheduler).get("lease_s") is not None:
        values.setdefault("lease_s", DEFAULT_LEASE_S)
    runner.dryrun(app, scheduler, values)  # finds what is wrong before anything is looked for or submitted
    if idempotency_key is None:
        work = Work.of_request(app.name, caller.work, app, scheduler, values)
    else:
        work = Work(name=idempotency_key, identity=f"key\n{idempotency_key}")
    return Request(app=app, scheduler=scheduler, cfg=values, work=work, shared=idempotency_key is not None)


def _holder(caller: _engine.Caller) -> Holder:
    return Holder(
        flow_try=caller.flow_try,
        task_run_id=caller.task_run_id,
        task_try=caller.task_try,
        call=uuid.uuid4().hex,
    )


def _leave(hold: Hold, caller: _engine.Caller, reason: str, log: RunLog) -> None:
    """Cancel the app if there is a reason to; otherwise it goes on, and the next try finds it."""
    if not reason:
        if hold.handle:
            log.say(f"leaving {hold.handle}, which goes on; a later try follows it")
        return
    try:
        hold.cancel(reason)
        hold.show_last_lines()
        caller.await_signal()
    except _engine.INTERRUPTIONS:  # the signal that we were ahead of, or an impatient second Ctrl-C
        hold.cancel(reason)
        raise
