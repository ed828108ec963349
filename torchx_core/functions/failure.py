"""Reads back what a function has raised in a replica."""

from __future__ import annotations

import json

from torchx_core.errors import AppStatusError, FunctionRaisedError
from torchx_core.specs.checks import is_map

__all__ = ["find_raised"]


def find_raised(err: AppStatusError) -> FunctionRaisedError | None:
    """Return the same failure as the error of the function; None when the function did not raise.

    It may have exited, run out of memory, or been cancelled; then the replica that failed first left no
    error file of a function's (see `torchx_core.functions.replica`).

    Args:
        err: Its message is kept.
    """
    first = next(iter(err.status.failed_replicas()), None)
    try:
        written: object = json.loads(first.structured_error_msg) if first else None
    except (ValueError, RecursionError):  # a program may write there what it likes
        return None
    message = written.get("message") if is_map(written) else None
    text = message.get("message") if is_map(message) else None
    extra = message.get("extraInfo") if is_map(message) else None
    traceback = extra.get("py_callstack") if is_map(extra) else None
    if not isinstance(text, str) or not isinstance(traceback, str):
        return None
    exception = text.removesuffix(traceback).strip()
    return FunctionRaisedError(err.status, str(err), exception=exception, traceback=traceback)
