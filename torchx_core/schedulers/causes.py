"""What an error of another library came from, apart from what the caller happened to be handling."""

from __future__ import annotations

from collections.abc import Iterator
from inspect import currentframe
from types import FrameType

__all__ = ["causes"]


def causes(err: BaseException) -> Iterator[BaseException]:
    """Yield the error, then those that it came from, the innermost last.

    Python chains an error to any that is being handled when it is raised, also to a KeyError in whose
    ``except`` clause the user called us. Such a one was caught by a function that has yet to return, and ends
    the chain here: it says nothing about what went wrong.
    """
    running = set[FrameType]()
    frame = currentframe()
    while frame is not None:
        running.add(frame)
        frame = frame.f_back
    inner: BaseException | None = err
    while inner is not None:
        yield inner
        inner = inner.__cause__ or (None if inner.__suppress_context__ else inner.__context__)
        if inner and inner.__traceback__ and inner.__traceback__.tb_frame in running:
            return
