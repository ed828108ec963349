"""The same checks for functions, whose mapped tasks Airflow makes in another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast, final

from airflow.sdk.bases.decorator import TaskDecorator, _TaskDecorator, task_decorator_factory
from airflow.sdk.definitions.mappedoperator import MappedOperator
from typing_extensions import override

from airflow_torchx._engine import BaseOperator, XComArg
from airflow_torchx._mapping import instances

__all__ = ["make_task_decorator"]

P = ParamSpec("P")
R = TypeVar("R")
O = TypeVar("O", bound=BaseOperator)  # noqa: E741  (as short as the others)


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
