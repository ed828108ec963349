"""What an app may import to report progress, metrics and its result; outside an app it does nothing.

Only the standard library. Any language can do the same: append lines of JSON to the file named in
``TORCHX_REPORT_FILE``::

    {"type": "progress", "fraction": 0.5, "message": "epoch 5 of 10"}
    {"type": "metric", "name": "loss", "value": 0.31, "step": 5}
    {"type": "result", "value": {"accuracy": 0.97}}
    {"type": "link", "name": "mlflow", "target": "http://mlflow:5000/#/experiments/0/runs/9f2"}

Each may have a ``time``, in seconds since the epoch: when it was made.

The file may be a pipe: open it for appending and write each line whole. Lines of up to 4096 bytes from
several processes of a replica never mix (pipe(7), PIPE_BUF); for longer ones let one process write, or lock
the file with flock(2) as this module does.

The environment variable ``TORCHX_METRIC_SINKS`` names where reports go besides: TensorBoard, MLflow, or
Weights & Biases (``torchx_core.sinks``, which is imported for that alone).
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import warnings
from contextlib import suppress
from typing import TypeVar

__all__ = [
    "METRIC_SINKS_VARIABLE",
    "REPORT_FILE_VARIABLE",
    "forward_metrics",
    "report_link",
    "report_metric",
    "report_progress",
    "report_result",
]

T = TypeVar("T")

REPORT_FILE_VARIABLE = "TORCHX_REPORT_FILE"
METRIC_SINKS_VARIABLE = "TORCHX_METRIC_SINKS"

MAX_REPORT = 1 << 20
"""Bytes of one report."""


def report_progress(fraction: float, message: str = "") -> None:
    """Say how much of the work is done.

    Args:
        fraction: From 0 to 1.
        message: For people, for example ``epoch 5 of 10``.

    Raises:
        ValueError: The fraction is not between 0 and 1.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction must be between 0 and 1: {fraction}")
    _report({"type": "progress", "fraction": float(fraction), "message": message})


def report_metric(name: str, value: float, step: int | None = None) -> None:
    """Report a number, for example the loss at a step."""
    _report({"type": "metric", "name": name, "value": float(value), "step": step})


def report_result(value: object) -> None:
    """Hand back a JSON value as the app's result; the last one reported by any replica counts.

    NaN and infinities, for which JSON has no number, arrive as None.

    Raises:
        TypeError: The value is not JSON.
        ValueError: It is longer than 1 MiB; report where it lies instead.
    """
    _report({"type": "result", "value": value})


def report_link(name: str, target: str) -> None:
    """Say where to look for more: what follows the app shows it, as a link if it is an address of a page.

    Args:
        name: What is there, for example ``mlflow``.
        target: An http or https address; or a path, or an id, which is shown as text.
    """
    _report({"type": "link", "name": name, "target": target})


def forward_metrics(source: T) -> T:
    """Report what the program logs with another client, and return that: no metric needs a second call.

    Every scalar is logged as before, and then reported by `report_metric`. It is not written to the sink of
    the same client (``TORCHX_METRIC_SINKS``) again.

    Args:
        source: A ``SummaryWriter`` of ``torch.utils.tensorboard`` or ``tensorboardX``, or the module
            ``mlflow``: of that all that this process logs is reported, automatic logging included.

    Raises:
        TypeError: It is neither.
    """
    from torchx_core.sinks.forwarding import forward

    forward(source, report_metric)
    return source


def _report(report: dict[str, object]) -> None:
    timed = {**report, "time": time.time()}
    line = json.dumps(timed).encode() + b"\n"  # also outside an app: a wrong value should fail everywhere
    if len(line) > MAX_REPORT:
        raise ValueError(
            f"report of {len(line)} bytes; at most {MAX_REPORT} are taken, report a path instead"
        )
    path = os.environ.get(REPORT_FILE_VARIABLE)
    if path:
        try:
            _append(path, line)
        except OSError as err:  # a training loop must not fail for want of a reader
            warnings.warn(f"report not delivered: {err}", RuntimeWarning, stacklevel=3)
    named = os.environ.get(METRIC_SINKS_VARIABLE)
    if named:
        from torchx_core.sinks.feed import feed

        feed(named, report, report_link)


def _append(path: str, line: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        view = memoryview(line)
        while view:
            view = view[os.write(fd, view) :]
    finally:
        with suppress(OSError):
            fcntl.flock(
                fd, fcntl.LOCK_UN
            )  # a data loader forked meanwhile has the file open for as long as it runs
        os.close(fd)
