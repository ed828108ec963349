"""Weights & Biases, offline: files that ``wandb sync`` brings to the service later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, final

from torchx_core.sinks.entries import Entry, Outcome, Point
from torchx_core.sinks.origin import command_line
from torchx_core.sinks.place import Place

__all__ = ["STEP", "WandbOffline"]

STEP: Final = "step"
"""What the steps are called in the history; the service's own count the rows, and must not go back."""
_FLUSH_S = 1.0


class _Run(Protocol):
    """A ``wandb.Run``."""

    @property
    def dir(self) -> str: ...

    @property
    def summary(self) -> _Summary: ...

    def define_metric(self, name: str, /, *, step_metric: str) -> object: ...

    def log(self, data: Mapping[str, float], /) -> None: ...

    def finish(self, exit_code: int) -> None: ...


class _Summary(Protocol):
    def __setitem__(self, key: str, value: object, /) -> None: ...


@final
class WandbOffline:
    """One run, in a directory for each attempt; the service makes one run of those with the same id."""

    def __init__(self, target: str, place: Place) -> None:
        """Import the client; the target is the directory of its folder ``wandb``, or the client's choice."""
        self._target: Final = target
        self._place: Final = place
        self._client: Final = import_module("wandb")
        self._run: _Run | None = None

    def open(self) -> str:
        """Begin the attempt's directory, beside whatever run the program has of its own."""
        if self._target:
            Path(self._target).mkdir(parents=True, exist_ok=True)  # else the client takes another one
        place, rank = self._place, self._place.local_rank
        self._run = run = self._init(
            mode="offline",
            dir=self._target or None,
            id=place.key(str(rank)) if rank else place.key(),
            name=f"{place.title} rank {rank}" if rank else place.title,
            group=place.app_id,
            job_type=place.role,
            config={"command": command_line(), "torchx": {"handle": place.handle, "attempt": place.attempt}},
            resume="allow",
            reinit="create_new",
            settings=self._settings(),
        )
        run.define_metric("*", step_metric=STEP)
        return str(Path(run.dir).parent)

    def write(self, entries: Sequence[Entry]) -> None:
        """Write the points, those of one step in one row, and results into the summary."""
        assert self._run is not None
        for row in _rows(entries):
            if isinstance(row, Outcome):
                self._run.summary["result"] = row.value
            else:
                self._run.log(row)

    def close(self, *, failed: bool) -> None:
        """Finish the run."""
        assert self._run is not None
        self._run.finish(exit_code=int(failed))

    def _init(self, **options: object) -> _Run:
        run: _Run = self._client.init(**options)
        return run

    def _settings(self) -> object:
        """Return settings by which the client leaves the program's output alone, and writes soon."""
        settings = self._client.Settings
        options: dict[str, object] = {"silent": True, "console": "off"}
        if "x_transaction_log_flush_interval" in settings.model_fields:
            options["x_transaction_log_flush_interval"] = _FLUSH_S
        return settings(**options)


def _rows(entries: Sequence[Entry]) -> Iterator[dict[str, float] | Outcome]:
    row: dict[str, float] = {}
    for entry in entries:
        is_next = isinstance(entry, Outcome) or entry.name in row or entry.step != row.get(STEP, entry.step)
        if row and is_next:
            yield row
            row = {}
        if isinstance(entry, Point):
            row |= {STEP: entry.step, entry.name: entry.value}
        else:
            yield entry
    if row:
        yield row
