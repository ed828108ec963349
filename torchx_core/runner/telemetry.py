"""Tells OpenTelemetry what the runner does, in a process that uses it; an engine's metrics; and the log.

Nothing is installed or imported for that: a process that has set up OpenTelemetry has imported it, an engine
that has metrics of its own says so (`record_metrics`), and who wants records in the log sets the level of the
logger ``torchx_core.apps`` to DEBUG. Everywhere else this does nothing.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib import import_module
from typing import Final, Protocol, cast, final

from torchx_core.schedulers import Batch, CancelOutcome, EventFeed, LogLines, LogsLost
from torchx_core.settings import ENV_TRACE_CONTEXT
from torchx_core.specs import AppHandle, AppState, AppStatus, parse_app_handle

__all__ = ["MetricsRecorder", "observed", "record_cancel", "record_metrics", "submit_span", "trace_context"]

logger: Final = logging.getLogger(__name__)
_apps: Final = logging.getLogger("torchx_core.apps")

_NAME: Final = "torchx_core"
_Attributes = Mapping[str, str]


class MetricsRecorder(Protocol):
    """Takes what is counted and measured of this process's apps, as an engine has metrics of its own."""

    def count(self, name: str, number: int, attributes: Mapping[str, str]) -> None:
        """Add the number to a counter."""

    def measure(self, name: str, seconds: float, attributes: Mapping[str, str]) -> None:
        """Record a length of time."""


_recorders: Final[list[MetricsRecorder]] = []


def record_metrics(recorder: MetricsRecorder) -> None:
    """Have the recorder take this process's metrics from now on, besides OpenTelemetry."""
    _recorders.append(recorder)


class _Span(Protocol):
    def set_attribute(self, key: str, value: str | int) -> None: ...
    def set_status(self, status: object) -> None: ...
    def end(self) -> None: ...


class _SpanContext(Protocol):
    is_valid: bool


class _CurrentSpan(Protocol):
    def get_span_context(self) -> _SpanContext: ...


class _Tracer(Protocol):
    def start_span(self, name: str, *, attributes: _Attributes) -> _Span: ...
    def start_as_current_span(
        self, name: str, *, attributes: _Attributes
    ) -> AbstractContextManager[_Span]: ...


class _StatusCode(Protocol):
    ERROR: object


class _Trace(Protocol):
    """The module ``opentelemetry.trace``, as far as it is used here."""

    StatusCode: _StatusCode

    def get_current_span(self) -> _CurrentSpan: ...
    def get_tracer(self, name: str) -> _Tracer: ...
    def Status(self, code: object, description: str) -> object: ...  # noqa: N802  # its class


class _Propagate(Protocol):
    """The module ``opentelemetry.propagate``, likewise."""

    def inject(self, carrier: dict[str, str]) -> None: ...


class _Counter(Protocol):
    def add(self, amount: int, attributes: _Attributes) -> None: ...


class _Histogram(Protocol):
    def record(self, amount: float, attributes: _Attributes) -> None: ...


class _Meter(Protocol):
    def __hash__(self) -> int: ...
    def create_counter(self, name: str) -> _Counter: ...
    def create_histogram(self, name: str, unit: str) -> _Histogram: ...


class _Metrics(Protocol):
    """The module ``opentelemetry.metrics``, likewise."""

    def __hash__(self) -> int: ...
    def get_meter(self, name: str) -> _Meter: ...


@contextmanager
def submit_span(scheduler: str, session: str) -> Generator[Callable[[AppHandle], None]]:
    """Have a submit be a span, counted and timed; its handle is told by what is yielded."""
    began, kind = time.monotonic(), {"torchx.scheduler": scheduler}
    outcome = "interrupted"
    with _current_span("torchx.submit", {**kind, "torchx.session": session}) as span:

        def learn(handle: AppHandle) -> None:
            span.set_attribute("torchx.handle", handle)
            _log("submitted", _names(handle))

        try:
            yield learn
            outcome = "ok"
        except Exception as err:
            outcome = type(err).__name__
            raise
        finally:
            _count("torchx.submits", 1, {**kind, "outcome": outcome})
            _measure("torchx.submit.duration", time.monotonic() - began, kind)


def record_cancel(handle: AppHandle, reason: str, outcome: CancelOutcome) -> None:
    """Have a cancel be a span, counted and logged."""
    attributes = {**_names(handle), "torchx.cancel.reason": reason, "torchx.cancel.outcome": outcome.name}
    _span("torchx.cancel", attributes).end()
    _count("torchx.cancels", 1, {**_kind(handle), "outcome": outcome.name})
    _log("cancel", attributes)


def trace_context() -> dict[str, str]:
    """Return the variables by which a program begins its spans below the present one.

    Those of OpenTelemetry's environment carrier; in a process that has no span, its own.
    """
    trace = _trace()
    if trace is None or not trace.get_current_span().get_span_context().is_valid:
        return {name: os.environ[name] for name in ENV_TRACE_CONTEXT if name in os.environ}
    carrier: dict[str, str] = {}
    with _harmless("an app's spans will be a trace of their own"):
        cast("_Propagate", import_module("opentelemetry.propagate")).inject(carrier)
    return {name.upper(): value for name, value in carrier.items() if name.upper() in ENV_TRACE_CONTEXT}


def observed(feed: EventFeed, handle: AppHandle) -> EventFeed:
    """Return what follows the app as the feed does, and is a span from now until it is closed."""
    is_told = _recorders or _trace() is not None or _apps.isEnabledFor(logging.DEBUG)
    return _Observed(feed, handle) if is_told else feed


@final
class _Observed(EventFeed):
    """A feed whose batches are counted."""

    def __init__(self, feed: EventFeed, handle: AppHandle) -> None:
        self._feed = feed
        self._handle = handle
        self._span = _span("torchx.follow", _names(handle))
        self._lines = 0
        self._is_open = True

    @property
    def cursor(self) -> str:
        return self._feed.cursor

    @property
    def done(self) -> bool:
        return self._feed.done

    @property
    def caught_up(self) -> bool:
        return self._feed.caught_up

    def poll(self) -> Batch | None:
        batch = self._feed.poll()
        if batch is not None:
            self._take(batch)
        if renewals := self._feed.renewals - self.renewals:
            _count("torchx.renewals", renewals, _kind(self._handle))
            self._count_renewals(renewals)
        return batch

    def wait(self, timeout_s: float | None) -> None:
        self._feed.wait(timeout_s)

    async def wait_async(self, timeout_s: float | None) -> None:
        await self._feed.wait_async(timeout_s)

    def close(self) -> None:
        self._feed.close()
        if self._is_open:
            self._is_open = False
            self._span.set_attribute("torchx.lines", self._lines)
            self._span.end()

    def _take(self, batch: Batch) -> None:
        kind = _kind(self._handle)
        lines = sum(len(event.lines) for event in batch.events if isinstance(event, LogLines))
        if lines:
            self._lines += lines
            _count("torchx.lines", lines, kind)
        for event in batch.events:
            if isinstance(event, LogsLost):
                _count("torchx.lost", 1, kind)
        if batch.final_status is not None:
            self._record_end(batch.final_status, kind)

    def _record_end(self, status: AppStatus, kind: dict[str, str]) -> None:
        replicas = [replica for role in status.roles for replica in role.replicas]
        ends = [replica.ended_at for replica in replicas if replica.ended_at]
        _count("torchx.ends", 1, {**kind, "state": status.state.name})
        if ends:
            _measure("torchx.end.latency", max(0.0, time.time() - max(ends)), kind)
        attributes = {"torchx.state": status.state.name, **_failure(status)}
        for key, value in attributes.items():
            self._span.set_attribute(key, value)
        _log("ended", {**_names(self._handle), **attributes})
        if status.state is AppState.FAILED and (trace := _trace()) is not None:
            self._span.set_status(trace.Status(trace.StatusCode.ERROR, status.msg))


def _failure(status: AppStatus) -> dict[str, str | int]:
    """Return which replica failed, and how."""
    if status.state is not AppState.FAILED or not (failed := status.failed_replicas()):
        return {}
    first = failed[0]
    told: dict[str, str | int] = {"torchx.failed.role": first.role, "torchx.failed.replica": first.id}
    if first.exit_code is not None:
        told["torchx.failed.exit_code"] = first.exit_code
    if first.signal:
        told["torchx.failed.signal"] = first.signal
    return told


def _names(handle: AppHandle) -> dict[str, str]:
    parsed = parse_app_handle(handle)
    return {**_kind(handle), "torchx.session": parsed.session_name, "torchx.handle": handle}


def _kind(handle: AppHandle) -> dict[str, str]:
    return {"torchx.scheduler": parse_app_handle(handle).scheduler_backend}


def _log(what: str, attributes: Mapping[str, str | int]) -> None:
    """Write a record with the attributes as fields of their own, dots as underscores."""
    if _apps.isEnabledFor(logging.DEBUG):
        fields = {name.replace(".", "_"): value for name, value in attributes.items()}
        _apps.debug("%s %s", what, attributes["torchx.handle"], extra=fields)


class _NoSpan:
    """Stands for a span where nobody traces."""

    def set_attribute(self, key: str, value: str | int) -> None:
        """Do nothing."""

    def set_status(self, status: object) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


def _span(name: str, attributes: _Attributes) -> _Span:
    trace = _trace()
    return _NoSpan() if trace is None else trace.get_tracer(_NAME).start_span(name, attributes=attributes)


def _current_span(name: str, attributes: _Attributes) -> AbstractContextManager[_Span]:
    if (trace := _trace()) is None:
        return nullcontext(_NoSpan())
    return trace.get_tracer(_NAME).start_as_current_span(name, attributes=attributes)


def _trace() -> _Trace | None:
    return cast("_Trace | None", _imported("opentelemetry.trace", "get_tracer"))


def _imported(module: str, has: str) -> object:
    """Return the module if the process has imported it, and has come to its end."""
    found = sys.modules.get(module)
    return found if hasattr(found, has) else None


def _count(name: str, number: int, attributes: _Attributes) -> None:
    if (meter := _meter()) is not None:
        _counter(meter, name).add(number, attributes)
    for recorder in _recorders:
        with _harmless("a metric was not recorded"):
            recorder.count(name, number, attributes)


def _measure(name: str, seconds: float, attributes: _Attributes) -> None:
    if (meter := _meter()) is not None:
        _histogram(meter, name).record(seconds, attributes)
    for recorder in _recorders:
        with _harmless("a metric was not recorded"):
            recorder.measure(name, seconds, attributes)


@contextmanager
def _harmless(failure: str) -> Generator[None]:
    """Log what goes wrong here, so that no submit and no follower fails for it."""
    try:
        yield
    except Exception:  # an engine's own code
        logger.exception(failure)


@cache
def _meter_of(metrics: _Metrics) -> _Meter:
    return metrics.get_meter(_NAME)  # one that was got before there is a provider tells that, too


def _meter() -> _Meter | None:
    metrics = cast("_Metrics | None", _imported("opentelemetry.metrics", "get_meter"))
    return None if metrics is None else _meter_of(metrics)


@cache
def _counter(meter: _Meter, name: str) -> _Counter:
    return meter.create_counter(name)


@cache
def _histogram(meter: _Meter, name: str) -> _Histogram:
    return meter.create_histogram(name, unit="s")
