"""The decorator ``@torchx_task``: a Python function whose Prefect task runs it as an app."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import wraps
from typing import Any, ParamSpec, TypeVar, final, overload

from prefect.cache_policies import NO_CACHE
from prefect.tasks import Task, TaskOptions
from typing_extensions import TypedDict, Unpack, override

from prefect_torchx.order import OnWorkerShutdown, Order
from prefect_torchx.run import arun_app, run_app
from prefect_torchx.tasks import worth_a_retry
from torchx_core.errors import AppStatusError, InvalidInputError, did_you_mean
from torchx_core.functions import FunctionSource, find_raised, function_app, read_function
from torchx_core.launch import Cfg, check_target
from torchx_core.specs import AppDef, Resource
from torchx_core.specs.mounts import Mount

__all__ = ["AppOptions", "RunOptions", "TorchXTask", "TorchXTaskOptions", "torchx_task"]

P = ParamSpec("P")
R = TypeVar("R")


class AppOptions(TypedDict, total=False):
    """What the function's app is like; see `torchx_core.functions.function_app` for each."""

    replicas: int
    nproc: int
    torchrun: bool
    image: str
    python: str
    env: Mapping[str, str] | None
    resource: Resource | str | None
    mounts: Sequence[Mount]
    max_retries: int


class RunOptions(TypedDict, total=False):
    """Where and how the app runs; see `prefect_torchx.run_app` for each."""

    scheduler: str | None
    cfg: Cfg
    session: str | None
    workspace: str | None
    lease_s: float | None
    timeout_s: float | None
    log_limit_mb: float | None
    on_worker_shutdown: OnWorkerShutdown
    idempotency_key: str | None


class TorchXTaskOptions(AppOptions, RunOptions, TaskOptions, total=False):
    """All options of a task that runs a function as an app, those of every Prefect task included."""


@final
class TorchXTask(Task[P, R]):
    """A Prefect task whose runs are apps that call a function."""

    def __init__(self, function: Callable[P, R], **options: Unpack[TorchXTaskOptions]) -> None:
        """Check all that can be checked before the function is called; see `torchx_task`."""
        ours, task_options = _split(options)
        launch = _Launch(read_function(function), ours)
        launch.check()
        task_options.setdefault("retry_condition_fn", worth_a_retry)
        if not task_options.keys() & {"cache_policy", "cache_key_fn"}:
            task_options["cache_policy"] = NO_CACHE
        self._launch = launch
        super().__init__(launch.bind(function), **task_options)

    def app(self, *args: P.args, **kwargs: P.kwargs) -> AppDef:
        """Return the app that a call with these arguments runs, for a dry run or a test.

        Raises:
            FunctionArgumentError: The arguments do not fit, or cannot travel.
        """
        return self._launch.app(args, kwargs)

    @override
    def with_options(self, **options: Unpack[TorchXTaskOptions]) -> TorchXTask[P, R]:  # type: ignore[override]  # takes more
        """Return this task with other options, of its app as well as of the task."""
        ours, task_options = _split(options)
        launch = _Launch(self._launch.source, {**self._launch.options, **ours})
        launch.check()
        # Prefect makes a plain task of it; its attributes say all, but for what it calls.
        attributes = vars(super().with_options(**task_options))
        changed = copy(self)
        vars(changed).update(attributes, fn=launch.bind(inspect.unwrap(self.fn)), _launch=launch)
        return changed


@overload
def torchx_task(function: Callable[P, R], /) -> TorchXTask[P, R]: ...
@overload
def torchx_task(
    **options: Unpack[TorchXTaskOptions],
) -> Callable[[Callable[P, R]], TorchXTask[P, R]]: ...
def torchx_task(function: Callable[..., Any] | None = None, /, **options: Unpack[TorchXTaskOptions]) -> Any:
    """Make a Prefect task of a function, whose runs call the function in every replica of an app.

    The task returns what rank 0 returns. The function is a plain one that needs nothing from around it; its
    arguments are what JSON can hold, also when they are the results of other tasks. An ``async def`` makes
    an async task. Both forms work, with options and without.

    It is a task like any other: it can be submitted, mapped and retried. It is not cached, because a job
    that silently does not run is worse than one that runs twice, unless ``cache_policy`` says so; a task
    that is run again finds its app all the same, as with `run_app`. What cannot work the next time either is
    not retried, unless ``retry_condition_fn`` says so.

    Args:
        function: The function; see `torchx_core.functions.function_app` for what it may be.
        options: `AppOptions`, `RunOptions`, and what ``prefect.task`` takes. ``with_options`` takes them,
            too, so that a flow can choose them as it runs.

    Raises:
        InvalidFunctionError: The function cannot run elsewhere; now, not when it is called.
        InvalidInputError: An option is unknown or wrong; likewise.
        UnknownSchedulerException: There is no such scheduler; likewise.
        FunctionArgumentError: From a call: the arguments do not fit, or cannot travel; nothing is submitted.
        FunctionRaisedError: From a call: the function raised. The message leads with the replica that failed
            first, and has the exception and its traceback. Besides these, what `run_app` raises.

    Example:
        >>> @torchx_task(replicas=2, retries=3)
        ... def square(number):
        ...     return number * number
        >>> square.with_options(replicas=4).name
        'square'
    """

    def decorate(function: Callable[P, R]) -> TorchXTask[P, R]:
        return TorchXTask(function, **options)

    return decorate if function is None else decorate(function)


@final
class _Launch:
    """How calls of a function become runs of apps."""

    def __init__(self, source: FunctionSource, options: Mapping[str, Any]) -> None:
        self.source = source
        self.options = options
        self._app_options = {k: v for k, v in options.items() if k in AppOptions.__optional_keys__}
        self._run_options = {k: v for k, v in options.items() if k in RunOptions.__optional_keys__}

    def check(self) -> None:
        """Look at a call with None for every argument that has to be given, and at its target."""
        needed = [p for p in self.source.signature.parameters.values() if p.default is p.empty]
        positional = [None for p in needed if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        app = self.app(positional, {p.name: None for p in needed if p.kind is p.KEYWORD_ONLY})
        order = Order.make(app, **self._run_options)
        check_target(order.target, order.workspace)

    def bind(self, function: Callable[P, R]) -> Callable[P, R]:
        """Return what Prefect calls in place of the function; it looks the same."""

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401  (any JSON value)
            app = self.app(args, kwargs)
            try:
                return run_app(app, **self._run_options)
            except AppStatusError as err:
                raise (find_raised(err) or err) from None

        @wraps(function)
        async def arun(*args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401  (likewise)
            app = self.app(args, kwargs)
            try:
                return await arun_app(app, **self._run_options)
            except AppStatusError as err:
                raise (find_raised(err) or err) from None

        return arun if self.source.is_async else run  # type: ignore[return-value]

    def app(self, args: Sequence[object], kwargs: Mapping[str, object]) -> AppDef:
        return function_app(self.source, args, kwargs, **self._app_options)


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tell our options from those of Prefect's tasks."""
    ours = AppOptions.__optional_keys__ | RunOptions.__optional_keys__
    known = ours | TaskOptions.__optional_keys__
    for name in options:
        if name not in known:
            raise InvalidInputError(f"@torchx_task has no option {name!r}{did_you_mean(name, known)}")
    own = {name: value for name, value in options.items() if name in ours}
    rest = {name: value for name, value in options.items() if name not in ours}
    return own, rest
