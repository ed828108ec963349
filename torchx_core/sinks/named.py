"""The sinks that ``TORCHX_METRIC_SINKS`` names: ``tensorboard:DIR,mlflow:TRACKING_URI,wandb:DIR``."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["KINDS", "NamedSink", "parse_sinks"]

KINDS: Final = ("tensorboard", "mlflow", "wandb")
_NEEDS_TARGET: Final = ("tensorboard",)


class NamedSink(NamedTuple):
    """One sink, and where it writes to."""

    kind: str
    target: str
    """A directory or an address; empty for the client's own choice, which its own variables may make."""


def parse_sinks(text: str) -> list[NamedSink]:
    """Return the sinks that the text names, in its order.

    Raises:
        ValueError: One is not known, is named twice, or lacks its directory.

    Example:
        >>> parse_sinks("tensorboard:/runs, mlflow:http://mlflow:5000")[1].target
        'http://mlflow:5000'
    """
    sinks = [_parse(word.strip()) for word in text.split(",") if word.strip()]
    kinds = [sink.kind for sink in sinks]
    for kind in kinds:
        if kinds.count(kind) > 1:
            raise ValueError(f"metric sink {kind} is named twice; each can be named once")
    return sinks


def _parse(word: str) -> NamedSink:
    kind, _, target = word.partition(":")
    if kind not in KINDS:
        raise ValueError(
            f"unknown metric sink {kind!r}; known: {', '.join(KINDS)}; expected KIND:TARGET,KIND:TARGET"
        )
    if not target and kind in _NEEDS_TARGET:
        raise ValueError(f"metric sink {kind} needs a directory: {kind}:DIR")
    return NamedSink(kind, target)
