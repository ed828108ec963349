"""TensorBoard: event files of scalars, as ``SummaryWriter`` writes them."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Final, Protocol, final

from torchx_core.sinks.entries import Entry, Point
from torchx_core.sinks.place import Place

__all__ = ["TensorBoardEvents"]


class _Writer(Protocol):
    """A ``tensorboard.summary.writer.event_file_writer.EventFileWriter``."""

    def add_event(self, event: object, /) -> None: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


@final
class TensorBoardEvents:
    """A directory of event files: one run of TensorBoard's, in which each attempt has a file."""

    def __init__(self, target: str, place: Place) -> None:
        """Import the client; the target is the directory of all apps."""
        self._folder: Final = Path(target).absolute() / place.folder
        self._client: Final = import_module("tensorboard.summary.writer.event_file_writer")
        self._event: Final = import_module("tensorboard.compat.proto.event_pb2")
        self._summary: Final = import_module("tensorboard.compat.proto.summary_pb2")
        self._writer: _Writer | None = None

    def open(self) -> str:
        """Begin a file, also after one that could not be written."""
        self._writer = self._client.EventFileWriter(str(self._folder))
        return str(self._folder)

    def write(self, entries: Sequence[Entry]) -> None:
        """Write the points; a result is there as the numbers in it."""
        assert self._writer is not None
        for point in entries:
            if isinstance(point, Point):
                value = self._summary.Summary.Value(tag=point.name, simple_value=point.value)
                summary = self._summary.Summary(value=[value])
                self._writer.add_event(
                    self._event.Event(wall_time=point.time, step=point.step, summary=summary)
                )
        self._writer.flush()

    def close(self, *, failed: bool) -> None:  # noqa: ARG002  (TensorBoard has no place for it)
        """Close the file."""
        assert self._writer is not None
        self._writer.close()
