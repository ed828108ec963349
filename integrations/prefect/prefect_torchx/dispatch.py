"""Lets one name serve synchronous and asynchronous callers, as Prefect's own blocks do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from prefect.context import TaskRunContext, get_run_context
from prefect.exceptions import MissingContextError

__all__ = ["caller_is_async", "dispatch"]

P = ParamSpec("P")
R = TypeVar("R")


def dispatch(method: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method whose asynchronous twin has its name with an ``a`` before it.

    An asynchronous caller gets what the twin returns, which it awaits. The type stays that of the method:
    asynchronous code that is checked for types calls the twin by its own name.
    """

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        if not caller_is_async():
            return method(*args, **kwargs)
        owner: Any = args[0]
        return cast("R", getattr(owner, f"a{method.__name__}")(*args[1:], **kwargs))

    return call


def caller_is_async() -> bool:
    """Return whether the task or flow that runs here is asynchronous; outside of both, whether a loop runs.

    The run decides, not the loop: a synchronous task called by an asynchronous flow has the flow's loop below
    it, in the same thread, and cannot await anything.
    """
    try:
        context = get_run_context()
    except MissingContextError:
        return _loop_runs()
    run = context.task if isinstance(context, TaskRunContext) else context.flow
    return _loop_runs() if run is None else run.isasync


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
