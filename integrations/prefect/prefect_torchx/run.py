"""Runs an app for a Prefect flow or task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prefect_torchx.app_run import AppRun
from prefect_torchx.order import OnWorkerShutdown, Order
from torchx_core.launch import Cfg, ComponentArgs
from torchx_core.specs import AppDef

__all__ = ["arun_app", "run_app"]


def run_app(  # noqa: PLR0913  (all but the first three are keywords)
    app: AppDef | Mapping[str, object] | str | None = None,
    scheduler: str | None = None,
    cfg: Cfg = None,
    *,
    component: str | None = None,
    component_args: ComponentArgs = None,
    workspace: str | None = None,
    session: str | None = None,
    lease_s: float | None = 600.0,
    timeout_s: float | None = None,
    log_limit_mb: float | None = 100.0,
    idempotency_key: str | None = None,
    on_worker_shutdown: OnWorkerShutdown = "detach",
) -> Any:  # noqa: ANN401  (any JSON value; the caller knows which)
    """Run an app to its end, show its output in the run's log, return the result that it reported.

    For the body of a flow or a task, also a submitted or mapped one; outside of Prefect it just runs the app.
    It blocks: use `arun_app` in async functions.

    The app is submitted once. When Prefect runs the same flow run or task again, the call finds the app of
    its predecessor by its request: it follows a running app from where the log stopped, returns the result of
    a succeeded one, and submits anew what has failed. So requests must not differ from try to try.

    Cancelling the flow run, ``timeout_seconds``, Ctrl-C and, in async functions, whatever cancels the
    asyncio task cancel the app. Everything else leaves it running: a worker that ends, an exception on the
    way, a flow run that is to run again.

    Args:
        app: What to run: an ``AppDef`` (of this project or of TorchX), a map of its fields, or YAML text.
        scheduler: Where to run it; None for ``local_cwd``.
        cfg: Options of the scheduler, by name or as text: ``grace_s=5,log_dir=/logs``.
        component: In place of ``app``, the name of a component that makes it, such as ``dist.torchrun``;
            see `torchx_core.components.find_component` for what code that runs.
        component_args: The component's arguments: argument -> value, or the words of a command line.
        workspace: Local files to lay over the image of the first role, where the scheduler can build that.
        session: Apps of one session are listed together; None for ``torchx``.
        lease_s: The app cancels itself after so many seconds in which no try followed it, so that a lost
            worker cannot leave it running for ever. None for no lease. Only for schedulers with an option of
            that name.
        timeout_s: Cancel the app when it has run for that many seconds. Unlike ``timeout_seconds`` of Prefect
            this is seen to where the app runs, and holds whatever becomes of the flow.
        log_limit_mb: How much of the app's output the run's log shows at most, in millions of characters;
            None for all. Beyond it the log says where the rest is.
        idempotency_key: Names the app instead of the run and the request: every call with this key, in any
            run, is after the same app.
        on_worker_shutdown: What a SIGTERM means that is no cancel: ``detach`` leaves the app running for the
            next try, ``cancel`` stops it. A flow run that will run again always leaves it, and who is killed
            without a signal has to: ``lease_s`` is for that.

    Returns:
        The last value that the app reported with `torchx_core.runtime.report_result`; None when it did not.

    Raises:
        InvalidInputError: An argument, the app or the cfg is wrong; nothing was submitted.
        NotFoundError: There is no such scheduler or component; likewise.
        AppStatusError: The app ended otherwise than SUCCEEDED; the message leads with what failed.
        OvertakenError: A later try of this run has the app; it is left alone.
        SchedulerError: The scheduler was away for too long; the app, if there is one, goes on.
    """
    order = Order.make(
        app,
        scheduler,
        cfg,
        component=component,
        component_args=component_args,
        workspace=workspace,
        session=session,
        lease_s=lease_s,
        timeout_s=timeout_s,
        log_limit_mb=log_limit_mb,
        idempotency_key=idempotency_key,
        on_worker_shutdown=on_worker_shutdown,
    )
    with AppRun(order) as run:
        return run.result(run.run())


async def arun_app(  # noqa: PLR0913  (as `run_app`)
    app: AppDef | Mapping[str, object] | str | None = None,
    scheduler: str | None = None,
    cfg: Cfg = None,
    *,
    component: str | None = None,
    component_args: ComponentArgs = None,
    workspace: str | None = None,
    session: str | None = None,
    lease_s: float | None = 600.0,
    timeout_s: float | None = None,
    log_limit_mb: float | None = 100.0,
    idempotency_key: str | None = None,
    on_worker_shutdown: OnWorkerShutdown = "detach",
) -> Any:  # noqa: ANN401  (any JSON value; the caller knows which)
    """Do what `run_app` does on an event loop, without a thread per app."""
    order = Order.make(
        app,
        scheduler,
        cfg,
        component=component,
        component_args=component_args,
        workspace=workspace,
        session=session,
        lease_s=lease_s,
        timeout_s=timeout_s,
        log_limit_mb=log_limit_mb,
        idempotency_key=idempotency_key,
        on_worker_shutdown=on_worker_shutdown,
    )
    async with AppRun(order) as run:
        return run.result(await run.arun())
