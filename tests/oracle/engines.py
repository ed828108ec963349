"""What an engine's driver is, and where the runner finds it.

The driver of the engine ``NAME`` is the module ``engine_NAME`` beside this one, which is imported only when
that engine is asked for. Its ``ENGINE`` starts the engine once for a whole run, and runs and judges single
trials, several side by side, on what was started.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import ClassVar, NamedTuple, cast

from judge import Violation

__all__ = ["ENGINES", "Engine", "Judged", "engine", "split"]

ENGINES = tuple(
    sorted(path.stem.removeprefix("engine_") for path in Path(__file__).parent.glob("engine_*.py"))
)
"""The engines that have a driver."""


class Judged(NamedTuple):
    """What came of a trial."""

    violations: list[Violation]
    report: dict[str, object]
    """What is kept of a bad trial beside its files: what was asked for, done and shown."""


class Engine(ABC):
    """One engine, started for the whole run."""

    name: ClassVar[str]
    faults: ClassVar[Mapping[str, tuple[str, ...]]]
    """The names of the faults for each form of task, such as ``{"deferred": ("triggerer-killed",)}``."""
    workers: int = 4
    """How many trials to run side by side."""

    @abstractmethod
    def start(self, stack: ExitStack, root: Path) -> None:
        """Start the engine; it ends with the stack, and keeps its files below the root."""

    @abstractmethod
    def trial(self, form: str, fault: str, seed: int, root: Path) -> Judged:
        """Run one trial, whose files lie below the root, and judge it.

        The runner calls this in one of several processes that were forked after `start`. What it raises is
        told as ``oracle-broke``. It leaves nothing running.
        """


def engine(name: str) -> Engine:
    """Return the driver of an engine."""
    return cast(Engine, import_module(f"engine_{name}").ENGINE)


def split(column: str) -> tuple[str, str]:
    """Return the engine and the form of a column; the form is empty for a scheduler's backend."""
    name, _, form = column.partition(":")
    return (name, form) if name in ENGINES else (column, "")
