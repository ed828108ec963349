"""Checks mapped tasks when their DAG is parsed. Airflow itself makes no operator of them before they run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, final

from airflow.sdk.definitions.mappedoperator import MappedOperator, OperatorPartial
from typing_extensions import override

from airflow_torchx._engine import XComArg

__all__ = ["checked", "instances"]

MOST_CHECKED = 100
"""A DAG is parsed again and again, and may map over thousands of values."""


def checked(partial: OperatorPartial) -> OperatorPartial:
    """Return the same partial operator, which makes its first instances as soon as it is expanded."""
    partial._expand_called = True  # noqa: SLF001  (or it complains when it is dropped)
    return _CheckedPartial(
        operator_class=partial.operator_class, kwargs=partial.kwargs, params=partial.params
    )


@final
class _CheckedPartial(OperatorPartial):
    @override
    def _expand(self, expand_input: Any, *, strict: bool) -> MappedOperator:
        mapped = super()._expand(expand_input, strict=strict)
        for given in instances(expand_input.value):
            mapped.unmap(_known(given, mapped.template_fields))
        return mapped


def instances(mapped: object) -> Iterator[Mapping[str, object]]:
    """Yield arguments so that each value written in the DAG comes once, if there are not too many.

    What other tasks return stands for itself: an operator takes it for something that is not known yet.
    """
    if isinstance(mapped, Mapping):
        yield from islice(_combined(mapped), MOST_CHECKED)
    elif isinstance(mapped, Sequence):
        yield from islice((each for each in mapped if isinstance(each, Mapping)), MOST_CHECKED)


def _combined(mapped: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Yield the first values of all arguments, then the second ones; not every combination."""
    columns = {name: _values(values) for name, values in mapped.items()}
    if all(columns.values()):
        for row in range(max(map(len, columns.values()))):
            yield {name: column[min(row, len(column) - 1)] for name, column in columns.items()}


def _values(values: object) -> list[object]:
    if isinstance(values, Mapping):
        return list(values.items())
    return list(values) if isinstance(values, Sequence) else [values]


def _known(given: Mapping[str, object], template_fields: Collection[str]) -> dict[str, object]:
    """Leave out what comes later and is no template: an operator does not expect it to."""
    return {
        name: value
        for name, value in given.items()
        if name in template_fields or not isinstance(value, XComArg)
    }
