"""Reports what a program logs with a client of its own, besides logging it."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Protocol, SupportsFloat, SupportsIndex, TypeAlias, cast

from torchx_core.sinks.feed import leaving_out
from torchx_core.sinks.writer import WriterThread

__all__ = ["forward"]

Report: TypeAlias = Callable[[str, float, int | None], None]
Arguments: TypeAlias = Mapping[str, object]
Value: TypeAlias = tuple[object, object, object]
"""Name, value and step, as the client takes them."""
Read: TypeAlias = Callable[[Arguments], Iterable[Value]]

_MARK = "__torchx_forwards__"


def forward(source: object, report: Report) -> None:
    """Have the source's methods for scalars report each of them, after they have done their work.

    Doing so twice changes nothing.

    Args:
        source: A ``SummaryWriter``, or the module ``mlflow``.
        report: Takes name, value and step.

    Raises:
        TypeError: It is neither.
    """
    if callable(getattr(source, "add_scalar", None)):
        reporter = _Reporter("tensorboard", report)
        _wrap(source, "add_scalar", _scalar, reporter)
        _wrap(source, "add_scalars", _scalars, reporter)
        return
    client = getattr(source, "MlflowClient", None)
    if client is None:
        expected = "expected a SummaryWriter, or the module mlflow"
        raise TypeError(f"cannot forward metrics of {source!r}; {expected}")
    reporter = _Reporter("mlflow", report)
    _wrap(client, "log_metric", _metric, reporter)
    _wrap(client, "log_batch", _batch, reporter)


def _scalar(given: Arguments) -> Iterator[Value]:
    yield given["tag"], given["scalar_value"], given.get("global_step")


def _scalars(given: Arguments) -> Iterator[Value]:
    for name, value in cast("Mapping[object, object]", given["tag_scalar_dict"]).items():
        yield f"{given['main_tag']}/{name}", value, given.get("global_step")


def _metric(given: Arguments) -> Iterator[Value]:
    yield given["key"], given["value"], given.get("step")


class _Metric(Protocol):
    """An ``mlflow.entities.Metric``."""

    key: str
    value: float
    step: int


def _batch(given: Arguments) -> Iterator[Value]:
    for metric in cast("Iterable[_Metric]", given.get("metrics", ())):
        yield metric.key, metric.value, metric.step


class _Reporter:
    """Reports to all but the sink of the client that has the value already; raises nothing."""

    def __init__(self, kind: str, report: Report) -> None:
        self._kind = kind
        self._report = report

    def report(self, values: Iterable[Value]) -> None:
        if isinstance(threading.current_thread(), WriterThread):
            return  # a sink writes what was reported
        with leaving_out(self._kind):
            for name, value, step in values:
                with suppress(TypeError, ValueError, OverflowError):  # what no number can be made of
                    number = float(cast("SupportsFloat", value))
                    at = None if step is None else int(cast("SupportsIndex", step))
                    self._report(str(name), number, at)


def _wrap(owner: object, method: str, read: Read, reporter: _Reporter) -> None:
    original = cast("Callable[..., object]", getattr(owner, method))
    if hasattr(original, _MARK):
        return
    signature = inspect.signature(original)

    @functools.wraps(original)
    def forwarding(*args: object, **kwargs: object) -> object:
        returned = original(*args, **kwargs)
        reporter.report(read(signature.bind(*args, **kwargs).arguments))
        return returned

    setattr(forwarding, _MARK, True)
    setattr(owner, method, forwarding)
