"""The decorator ``@task.torchx``: a Python function whose task runs it as an app."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, ParamSpec, TypeVar, cast, final, overload

from airflow.sdk.bases.decorator import (
    DecoratedOperator,
    Task,
    TaskDecorator,
    _TaskDecorator,
    task_decorator_factory,
)
from airflow.sdk.definitions.mappedoperator import MappedOperator
from typing_extensions import override

from airflow_torchx import _engine
from airflow_torchx._arguments import check_count, check_env, check_flag
from airflow_torchx._engine import BaseOperator, XComArg
from airflow_torchx._mapping import instances
from airflow_torchx.operators.torchx import TorchXRunOperator
from torchx_core.errors import InvalidInputError
from torchx_core.functions import check_function, function_app
from torchx_core.specs import AppDef, Resource, validate_app
from torchx_core.specs.mounts import Mount

__all__ = ["TorchXDecoratedOperator", "torchx_task"]

P = ParamSpec("P")
R = TypeVar("R")
O = TypeVar("O", bound=BaseOperator)  # noqa: E741  (as short as the others)


# Airflow says Sequence for the template fields of one, and Collection for those of the other
class TorchXDecoratedOperator(DecoratedOperator, TorchXRunOperator):  # pyright: ignore[reportIncompatibleVariableOverride]
    """What a call of a function decorated with ``@task.torchx`` becomes.

    Args:
        python_callable: The function; see `torchx_core.functions.function_app` for what it may be.
        op_args: Its positional arguments: what JSON can hold once they are rendered. (templated)
        op_kwargs: Its keyword arguments, likewise. (templated)
        replicas: How many replicas run it.
        nproc: Processes of each replica; with more than one, torchrun starts them.
        torchrun: Start a single process by torchrun as well.
        image: What to run in, where the scheduler runs images. (templated)
        python: The Python to run, in the image. (templated)
        env: Environment variables. (templated)
        resource: What each replica needs, or the name of a named resource.
        mounts: What to mount into each replica.
        max_retries: How often the scheduler starts the app again after a failure, before the task fails.
        kwargs: Those of `TorchXRunOperator` and of every task.
    """

    template_fields = (
        *DecoratedOperator.template_fields,
        "image",
        "python",
        "env",
        "workspace",
        "scheduler",
        "cfg",
        "session",
        "torchx_conn_id",
    )
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        "env": "json",
        "cfg": "json",
    }
    custom_operator_name = "@task.torchx"

    def __init__(  # noqa: PLR0913  (an operator's arguments are its interface; all are keywords)
        self,
        *,
        python_callable: Callable[..., object],
        op_args: Collection[Any] | None = None,
        op_kwargs: Mapping[str, Any] | None = None,
        replicas: int = 1,
        nproc: int = 1,
        torchrun: bool = False,
        image: str = "",
        python: str = "python3",
        env: Mapping[str, str] | None = None,
        resource: Resource | str | None = None,
        mounts: Sequence[Mount] = (),
        max_retries: int = 0,
        **kwargs: Any,  # noqa: ANN401  (TorchXRunOperator's and BaseOperator's)
    ) -> None:
        self.replicas = replicas
        self.nproc = nproc
        self.torchrun = torchrun
        self.image = image
        self.python = python
        self.env = env
        self.resource = resource
        self.mounts = mounts
        self.max_retries = max_retries
        super().__init__(python_callable=python_callable, op_args=op_args, op_kwargs=op_kwargs, **kwargs)

    @override
    def _check_arguments(self) -> None:
        super()._check_arguments()
        check_count("replicas", self.replicas)
        check_count("nproc", self.nproc)
        check_flag("torchrun", self.torchrun)
        check_env(self.env)

    @override
    def _check_source(self) -> None:
        """Make the app, with None for every argument that only a run can know."""
        if self.app is not None or self.component is not None:
            raise InvalidInputError("@task.torchx makes the app of its function; leave out app and component")
        self._app_of(
            [_engine.known_now(value) for value in self.op_args],
            {name: _engine.known_now(value) for name, value in self.op_kwargs.items()},
        )

    @override
    def _make_app(self) -> AppDef:
        kwargs = {name: _as_list(value) for name, value in self.op_kwargs.items()}
        return self._app_of([_as_list(value) for value in self.op_args], kwargs)

    def _app_of(self, args: Sequence[object], kwargs: Mapping[str, object]) -> AppDef:
        app = function_app(
            self.python_callable,
            args,
            kwargs,
            replicas=self.replicas,
            nproc=self.nproc,
            torchrun=self.torchrun,
            image=self.image,
            python=self.python,
            env=self.env,
            resource=self.resource,
            mounts=self.mounts,
            max_retries=self.max_retries,
        )
        validate_app(app)
        return app


@overload
def torchx_task(python_callable: Callable[P, R], /) -> Task[P, R]: ...
@overload
def torchx_task(
    **kwargs: Any,  # noqa: ANN401  (the arguments of an operator)
) -> Callable[[Callable[P, R]], Task[P, R]]: ...
def torchx_task(python_callable: Callable[P, R] | None = None, /, **kwargs: Any) -> object:
    """Decorate a function so that its task runs it as an app and returns what it returns.

    ``@task.torchx`` is this function; both forms work, with arguments and without.

    Args:
        python_callable: The function.
        kwargs: Those of `TorchXDecoratedOperator`.

    Raises:
        InvalidFunctionError: The function cannot run elsewhere; when the DAG is parsed.

    Example:
        >>> @torchx_task(replicas=2)
        ... def square(number):
        ...     return number * number
    """

    def decorate(function: Callable[P, R]) -> TaskDecorator:
        check_function(function)  # here, because a mapped task makes no operator before it runs
        return make_task_decorator(function, TorchXDecoratedOperator, kwargs)

    return decorate if python_callable is None else decorate(python_callable)


def _as_list(value: object) -> object:
    """Return the results of a mapped task, which come one by one from Airflow's server, as a list."""
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | list | tuple):
        return list(value)
    return value


def make_task_decorator(
    function: Callable[P, R], operator_class: type[BaseOperator], kwargs: dict[str, Any]
) -> TaskDecorator:
    """Return what Airflow makes of a decorated function, which does so too."""
    made: Any = task_decorator_factory(function, decorated_operator_class=operator_class, **kwargs)
    decorator = _CheckedDecorator(
        function=made.function,
        operator_class=made.operator_class,
        multiple_outputs=made.multiple_outputs,
        kwargs=made.kwargs,
    )
    return cast("TaskDecorator", decorator)


@final
class _CheckedDecorator(_TaskDecorator[P, R, O]):
    @override
    def _expand(self, expand_input: Any, *, strict: bool) -> XComArg:
        result = super()._expand(expand_input, strict=strict)
        mapped = cast("MappedOperator", cast("Any", result).operator)
        for given in instances(expand_input.value):
            mapped.unmap({"op_kwargs": given})
        return result
