"""What a task hands on when its app has ended: XComs, asset events, or the error that fails it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

from airflow_torchx import _engine
from airflow_torchx._engine import AirflowException, AirflowFailException, Context
from torchx_core.display.masking import mask_status, mask_texts
from torchx_core.specs import AppHandle, AppState, AppStatus

__all__ = ["deliver", "failure_message", "status_xcoms"]


def deliver(
    context: Context,
    outlets: Iterable[object],
    handle: AppHandle,
    status: AppStatus,
    fail_on_exit_codes: Collection[int],
) -> object:
    """Hand on what is known of the app that has ended, and return its result.

    Raises:
        AirflowFailException: It failed in a way that a retry cannot help.
        AirflowException: It failed.
    """
    for key, value in status_xcoms(handle, status).items():
        _engine.push_xcom(context, key, value)
    if status.state is AppState.SUCCEEDED:
        for outlet in outlets:
            _engine.describe_outlet(context, outlet, {"handle": handle, "result": status.result})
        return status.result
    message = failure_message(status, handle)
    code = next((code for code in _exit_codes(status) if code in fail_on_exit_codes), None)
    if code is not None:
        raise AirflowFailException(f"{message}\n  not retried: exit code {code}")
    raise AirflowException(message)


def failure_message(status: AppStatus, handle: AppHandle) -> str:
    """Return why the app did not succeed, without secrets, and its handle; reads its last lines."""
    return f"{mask_status(status, _engine.masked).failure_summary()}\n  app: {handle}"


def _exit_codes(status: AppStatus) -> Iterator[int | None]:
    """Yield the exit code of the replica that failed first, and of the rank that was why."""
    from torchx_core.specs.failure import find_failure  # here: its expressions take a while to compile

    for replica in status.failed_replicas()[:1]:
        yield replica.exit_code
    failure = find_failure(status)
    if failure is not None and failure.in_rank:
        yield failure.exit_code


def status_xcoms(handle: AppHandle, status: AppStatus) -> dict[str, Any]:
    """Return the XComs that say how the app ended; only its result is as the app gave it, secrets and all."""
    replicas = [replica for role in status.roles for replica in role.replicas]
    shown = mask_texts(replace(status, result=None).to_json(), _engine.masked, keys=False)
    return {
        "app": {"handle": handle, **cast("dict[str, object]", shown), "result": status.result},
        "exit_codes": {f"{replica.role}/{replica.id}": replica.exit_code for replica in replicas},
    }
