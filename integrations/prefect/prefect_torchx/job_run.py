"""One run of a job: an app, by its handle, in whatever process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Self, TypeGuard, final

from prefect.blocks.abstract import JobRun

from prefect_torchx._engine.causes import INTERRUPTIONS
from prefect_torchx.app_run import AppRun
from prefect_torchx.dispatch import dispatch
from prefect_torchx.off_loop import in_daemon_thread
from prefect_torchx.resumption import Resumption
from torchx_core.display.masking import make_mask, mask_status, mask_values
from torchx_core.errors import AppStatusError, UnknownAppException, WaitTimeoutError
from torchx_core.runner import Runner, get_runner
from torchx_core.specs import AppHandle, AppState, AppStatus

__all__ = ["TorchXJobRun", "observe"]


@final
class TorchXJobRun(JobRun[Any]):
    """An app that `TorchXJob.trigger` has submitted or found, or that `TorchXJob.attach` looks on at.

    Holds no more than the app's handle and who is responsible for it, so a task may return it, another one
    take it, in another process too; it can be pickled.

    If the flow run is cancelled or a timeout passes while somebody waits here, the app is cancelled; if the
    worker ends, the app is left to the next try. In a ``with`` or ``async with`` block that holds for the
    whole block; its normal end leaves the app running. An onlooker cancels the app only by `cancel`.

    Every verb has a twin to await, with an ``a`` before its name. In an asynchronous flow, task or script the
    verb without it is to be awaited as well; a type checker knows only the twin as such.

    Example:
        ::

            with TorchXJob.load("train").trigger() as run:
                prepare_evaluation()
                run.wait_for_completion()
                evaluate(run.fetch_result())
    """

    def __init__(self, resumption: Resumption) -> None:
        """Do nothing yet; `TorchXJob` makes these."""
        self._resumption = resumption
        self._is_left = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.handle!r})"

    def __reduce__(self) -> tuple[type[TorchXJobRun], tuple[Resumption]]:
        """Travel without secrets: what a task returns Prefect may keep."""
        return type(self), (replace(self._resumption, hidden=()),)

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel the app, or leave it alone, as the interruption demands; otherwise leave it alone."""
        if self._is_to_be_left(value):
            with self._noted(), AppRun(self._resumption) as run:
                run.leave(value)

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do what the end of a ``with`` block does."""
        if self._is_to_be_left(value):
            with self._noted():
                async with AppRun(self._resumption) as run:
                    await run.aleave(value)

    @property
    def handle(self) -> AppHandle:
        """The app's handle, such as ``local_cwd://torchx/train-x1``."""
        return self._resumption.handle

    @dispatch
    def wait_for_completion(self) -> None:  # type: ignore[override]  # Prefect's is only for asynchronous code
        """Show the app's output in the run's log until it ends.

        Raises:
            AppStatusError: It ended otherwise than SUCCEEDED; the message leads with what failed.
            UnknownAppException: There is no such app any more.
        """
        with self._noted(), AppRun(self._resumption) as run:
            run.result(run.follow())

    async def await_for_completion(self) -> None:
        """Await what `wait_for_completion` waits for."""
        with self._noted():
            async with AppRun(self._resumption) as run:
                run.result(await run.afollow())

    @dispatch
    def fetch_result(self) -> Any:  # noqa: ANN401  (any JSON value)
        """Return the last value that the app reported as its result; None when it reported nothing.

        Raises:
            WaitTimeoutError: The app has not ended; wait for it first.
            AppStatusError: It ended otherwise than SUCCEEDED.
            UnknownAppException: There is no such app any more.
        """
        return self._fetch_result()

    async def afetch_result(self) -> Any:  # noqa: ANN401
        """Await what `fetch_result` returns."""
        return await in_daemon_thread(self._fetch_result)

    @dispatch
    def status(self) -> AppStatus:
        """Return the app's present status.

        Raises:
            UnknownAppException: There is no such app any more.
        """
        return self._status()

    async def astatus(self) -> AppStatus:
        """Await what `status` returns."""
        return await in_daemon_thread(self._status)

    @dispatch
    def logs(self, role: str | None = None, replica: int = 0) -> list[str]:
        r"""Return the lines that one replica has written so far, all attempts in order, each with its ``\n``.

        Args:
            role: The replica's role; None for the app's first.
            replica: Its number within the role.

        Raises:
            UnknownReplicaError: There is no such role or replica.
            UnknownAppException: There is no such app any more.
        """
        return self._logs(role, replica)

    async def alogs(self, role: str | None = None, replica: int = 0) -> list[str]:
        """Await what `logs` returns."""
        return await in_daemon_thread(self._logs, role, replica)

    @dispatch
    def cancel(self, reason: str = "cancelled by a call of TorchXJobRun.cancel") -> None:
        """Ask for the app's end and return at once; an app that has ended stays what it is.

        When a later try of this run has the app, it is left alone. An onlooker cancels it whoever has it.

        Args:
            reason: Recorded, and shown in the status.
        """
        self._cancel(reason)

    async def acancel(self, reason: str = "cancelled by a call of TorchXJobRun.cancel") -> None:
        """Do what `cancel` does."""
        await in_daemon_thread(self._cancel, reason)

    @dispatch
    def detach(self) -> AppHandle:
        """Give up responsibility for the app, which goes on whatever becomes of this run; return its handle.

        Nobody renews its lease then until somebody follows it: let the job's ``lease_s`` be None for an app
        that is to go on for long.
        """
        return self._detach()

    async def adetach(self) -> AppHandle:
        """Do what `detach` does."""
        return self._detach()

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Note that an interruption of an `AppRun` has been dealt with by it."""
        try:
            yield
        except INTERRUPTIONS:
            self._is_left = True
            raise

    def _is_to_be_left(self, cause: BaseException | None) -> TypeGuard[BaseException]:
        responsible = self._resumption.token is not None and not self._is_left
        return responsible and isinstance(cause, INTERRUPTIONS)

    def _status(self) -> AppStatus:
        return self._resumption.ended or _present_status(self.handle)

    def _fetch_result(self) -> Any:  # noqa: ANN401
        status = self._status()
        if not status.is_terminal():
            raise WaitTimeoutError(self.handle, 0, str(status.state))
        if status.state is not AppState.SUCCEEDED:
            raise self._failure(status)
        return status.result

    def _failure(self, status: AppStatus) -> AppStatusError:
        with get_runner() as runner:
            app = runner.describe(self.handle)
        mask = make_mask(app, self._resumption.hidden) if app else mask_values(self._resumption.hidden)
        masked = mask_status(status, mask)
        return AppStatusError(masked, f"{masked.failure_summary()}\n  app: {self.handle}")

    def _logs(self, role: str | None, replica: int) -> list[str]:
        with get_runner() as runner:
            return list(runner.log_lines(self.handle, role or self._first_role(runner), replica))

    def _first_role(self, runner: Runner) -> str:
        app = runner.describe(self.handle)
        if app is None:
            raise UnknownAppException(self.handle)
        return app.roles[0].name

    def _cancel(self, reason: str) -> None:
        if self._resumption.token is None:
            with get_runner() as runner:
                runner.cancel(self.handle, reason=reason)
        else:
            with self._noted(), AppRun(self._resumption) as run:
                run.cancel(reason)

    def _detach(self) -> AppHandle:
        self._resumption = replace(self._resumption, token=None)
        return self.handle


def observe(handle: AppHandle, log_limit_mb: float | None) -> TorchXJobRun:
    """Return an onlooker's run of an app that there is; `TorchXJob.attach` tells more."""
    limit_bytes = None if log_limit_mb is None else int(log_limit_mb * 1e6)
    _present_status(handle)
    return TorchXJobRun(Resumption(handle=handle, limit_bytes=limit_bytes))


def _present_status(handle: AppHandle) -> AppStatus:
    with get_runner() as runner:
        status = runner.status(handle)
    if status is None:
        raise UnknownAppException(handle)
    return status
