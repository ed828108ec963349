"""Looks every few seconds at what an app uses, for whoever follows it and wants to know; for nobody else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Final

from torchx_core.errors import TorchXError
from torchx_core.schedulers.events import UsageSample
from torchx_core.specs import Usage

__all__ = ["Sampler"]

_EVERY_S: Final = 5.0
_SOON_S: Final = 1.0
"""How soon to look again as long as there is none, and after the first: two tell how busy the CPU is."""
_REST: Final = 9
"""Looking takes a tenth of the time at most: a scheduler that is slow to say is asked less often."""


class Sampler:
    """Asks for samples when they are due, and adds what only two of them together tell."""

    def __init__(
        self,
        look: Callable[[], Sequence[UsageSample]],
        every_s: float = _EVERY_S,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Have looked at nothing yet.

        Args:
            look: Returns a sample of each replica that runs; may take a while.
            every_s: Seconds from one look to the next, but for the second one.
            clock: Tells when that is; never goes backwards.
        """
        self._look = look
        self._every_s = every_s
        self._clock = clock
        self._due_at = clock()
        self._last: dict[tuple[str, int, int], UsageSample] = {}

    @property
    def left_s(self) -> float:
        """In how many seconds the next look is due."""
        return max(0.0, self._due_at - self._clock())

    def is_due(self, *, busy: bool = False) -> bool:
        """Return whether it is time to look.

        Args:
            busy: There are other events to tell, of the past perhaps; then it has some more time.
        """
        return self._clock() >= self._due_at + (self._every_s if busy else 0.0)

    def take(self) -> tuple[UsageSample, ...]:
        """Look; return nothing where the scheduler does not know, or cannot say just now."""
        begun = self._clock()
        try:
            samples = tuple(map(self._complete, self._look()))
        except TorchXError as err:  # that the app is gone, say, its events tell
            import logging  # here: whoever follows has no need of it otherwise

            logging.getLogger(__name__).debug("cannot see what the app uses: %s", err)
            samples = ()
        ended = self._clock()
        pause_s = self._every_s if self._last else min(_SOON_S, self._every_s)
        self._due_at = max(begun + pause_s, ended + _REST * (ended - begun))
        self._last = {(s.role, s.replica, s.attempt): s for s in samples} or self._last
        return samples

    def _complete(self, sample: UsageSample) -> UsageSample:
        last = self._last.get((sample.role, sample.replica, sample.attempt))
        usage = _with_peak(sample.usage, last.usage if last else Usage())
        return replace(sample, usage=usage if last is None else _with_rate(usage, sample, last))


def _with_peak(usage: Usage, last: Usage) -> Usage:
    """Return the usage with the most memory that was seen, where the scheduler does not know the peak."""
    if usage.memory_peak_bytes is not None or usage.memory_bytes is None:
        return usage
    return replace(usage, memory_peak_bytes=max(usage.memory_bytes, last.memory_peak_bytes or 0))


def _with_rate(usage: Usage, now: UsageSample, last: UsageSample) -> Usage:
    time_s = now.time - last.time
    if time_s == 0 and usage.cpu_s == last.usage.cpu_s:  # a busy node's answer, again
        return replace(usage, cpu_percent=last.usage.cpu_percent)
    if usage.cpu_s is None or last.usage.cpu_s is None or time_s <= 0:
        return usage
    return replace(usage, cpu_percent=round(100 * max(0.0, usage.cpu_s - last.usage.cpu_s) / time_s, 1))
