"""Where a record of a run's log goes: to everything that listens to the run's logger.

To Prefect's API it goes as a payload that the caller posts; to Prefect's console as plain text, because what
makes it colourful takes a fifth of a millisecond a line.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextvars import copy_context
from typing import Final, final

from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger
from prefect.logging.handlers import APILogHandler, PrefectConsoleHandler, WorkerAPILogHandler
from prefect.logging.loggers import LoggingAdapter
from prefect.settings import PREFECT_LOGGING_TO_API_ENABLED

from prefect_torchx.api import Payload
from prefect_torchx.records import Record

__all__ = ["Sink"]


@final
class Sink:
    """The log of the run that the code works for, or of another; outside of runs a logger of our own."""

    def __init__(self, run: LoggingAdapter | None = None) -> None:
        """Look at Prefect's context once: later calls may come from other threads.

        Args:
            run: Another run's log.
        """
        run = run or _present_run()
        self._run: logging.Logger = run.logger
        self._extra: Mapping[str, object] = dict(run.extra or {})
        self._logger: Final = self._run.getChild("torchx")
        self._context: Final = copy_context()

    def write(self, record: Record) -> list[Payload]:
        """Give the record to every listener but Prefect's API; return what that is to get."""
        return self._context.copy().run(self._write, record)

    def log(self, level: int, message: str) -> None:
        """Log a message of our own as the run's code would, Prefect's API included."""
        self._context.copy().run(self._logger.log, level, "%s", message, extra=dict(self._extra))

    def _write(self, record: Record) -> list[Payload]:
        made = self._make(record)
        if self._run.disabled or not self._logger.isEnabledFor(made.levelno) or not self._run.filter(made):
            return []
        payloads: list[Payload] = []
        for handler in _handlers(self._logger):
            if made.levelno < handler.level:
                continue
            if isinstance(handler, APILogHandler):
                payloads += _payloads(handler, made)
            elif isinstance(handler, PrefectConsoleHandler):
                _print(handler, made)
            else:
                handler.handle(made)
        return payloads

    def _make(self, record: Record) -> logging.LogRecord:
        name = f"{self._logger.name}.{record.source}" if record.source else self._logger.name
        made = self._logger.makeRecord(
            name, self._level(record), __file__, 0, record.text, (), None, extra=self._extra
        )
        if record.time is not None:
            made.created, made.msecs = record.time, record.time % 1 * 1000
        return made

    def _level(self, record: Record) -> int:
        """Return the record's level; INFO for DEBUG where that is not shown.

        What a program prints it wants to be seen: Prefect's default level is about Prefect's own words.
        """
        if record.level == logging.DEBUG and not self._logger.isEnabledFor(logging.DEBUG):
            return logging.INFO
        return record.level


def _present_run() -> LoggingAdapter:
    try:
        run = get_run_logger()
    except MissingContextError:
        run = logging.getLogger("prefect_torchx")
    return logging.LoggerAdapter(run, {}) if isinstance(run, logging.Logger) else run


def _handlers(logger: logging.Logger) -> Iterator[logging.Handler]:
    """Yield the handlers that a record of the logger reaches."""
    at: logging.Logger | None = logger
    while at is not None:
        yield from at.handlers
        at = at.parent if at.propagate else None


def _payloads(handler: APILogHandler, record: logging.LogRecord) -> list[Payload]:
    if isinstance(handler, WorkerAPILogHandler) or not PREFECT_LOGGING_TO_API_ENABLED.value():
        return []
    if not handler.filter(record):
        return []
    try:
        return [handler.prepare(record)]
    except Exception:  # noqa: BLE001  (as `logging` does it: no record is worth a failed app)
        handler.handleError(record)
        return []


def _print(handler: PrefectConsoleHandler, record: logging.LogRecord) -> None:
    if not handler.filter(record):
        return
    handler.acquire()
    try:
        handler.stream.write(handler.format(record) + "\n")
        handler.flush()
    except (OSError, ValueError):  # a closed terminal
        handler.handleError(record)
    finally:
        handler.release()
