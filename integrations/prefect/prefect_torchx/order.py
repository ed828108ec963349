"""What `run_app` is asked for: checked before anything is looked for or submitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal, TypeAlias

from prefect_torchx.attachment import Request
from prefect_torchx.naming import FLOW_RUN, Work
from torchx_core.errors import InvalidInputError
from torchx_core.launch import AppRequest, Cfg, ComponentArgs, Target, make_app, make_component, to_document
from torchx_core.runner import Runner
from torchx_core.specs import AppDef, snapshot_app

__all__ = ["OnWorkerShutdown", "Order"]

OnWorkerShutdown: TypeAlias = Literal["detach", "cancel"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One call of `run_app`."""

    app: AppDef
    target: Target
    workspace: str | None
    lease_s: float | None
    limit_bytes: int | None
    idempotency_key: str | None
    on_worker_shutdown: OnWorkerShutdown
    hidden: tuple[str, ...] = field(default=(), repr=False)
    """What to mask besides the app's secret variables."""

    @staticmethod
    def make(  # noqa: PLR0913  (the arguments of `run_app`, which says what they mean)
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
    ) -> Order:
        """Check the arguments, each by itself.

        Raises:
            InvalidInputError: One is wrong; `InvalidAppError` and others for what is wrong with the app.
            ComponentNotFoundException: There is no such component.
        """
        if (app is None) == (not component):
            raise InvalidInputError("give either app or component, and not both")
        if on_worker_shutdown not in ("detach", "cancel"):
            raise InvalidInputError(
                f"on_worker_shutdown must be 'detach' or 'cancel': {on_worker_shutdown!r}"
            )
        if idempotency_key == "":
            raise InvalidInputError("idempotency_key must not be empty: ''; leave it out, or give a name")
        _check_number("lease_s", lease_s)
        _check_number("timeout_s", timeout_s)
        _check_number("log_limit_mb", log_limit_mb, may_be_zero=True)
        target = Target().overridden(scheduler, session, cfg)
        if timeout_s is not None:
            target = target.overridden(None, None, {"timeout_s": float(timeout_s)})
        return Order(
            app=make_component(component, component_args) if component else make_app(to_document(app), app),
            target=target,
            workspace=workspace,
            lease_s=lease_s,
            limit_bytes=None if log_limit_mb is None else int(log_limit_mb * 1e6),
            idempotency_key=idempotency_key,
            on_worker_shutdown=on_worker_shutdown,
        )

    def request(self, runner: Runner, work: str, flow_run_id: str) -> Request:
        """Complete the request and check it as a whole; submit nothing.

        Args:
            runner: The target's.
            work: What is the same for every try of the run that asks; see `Work`.
            flow_run_id: The flow run that the app belongs to; empty for none.

        Raises:
            UnknownSchedulerException: There is no such scheduler.
            InvalidRunConfigException: The options do not fit it.
            InvalidAppError: It cannot run the app.
        """
        app = snapshot_app(self.app)
        if flow_run_id and self.idempotency_key is None:
            app.metadata = {**app.metadata, FLOW_RUN: flow_run_id}
        request = AppRequest.make(
            runner, app, self.target, workspace=self.workspace, lease_s=self.lease_s, deadline=None
        )
        runner.dryrun(request.app, request.scheduler, request.cfg, request.workspace)
        if self.idempotency_key is None:
            return Request(app=request, work=Work.of_request(work, request), shared=False)
        return Request(app=request, work=Work.of_key(self.idempotency_key), shared=True)


def _check_number(name: str, value: object, *, may_be_zero: bool = False) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    fits = is_number and (value > 0 or (may_be_zero and value == 0))  # type: ignore[operator]  # a number here
    if value is not None and not fits:
        wanted = "of at least 0" if may_be_zero else "above 0"
        raise InvalidInputError(f"{name} must be a number {wanted}, or None: {value!r}")
