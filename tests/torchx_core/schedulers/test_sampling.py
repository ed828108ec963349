"""When an app's usage is looked at, and what two looks tell together."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from torchx_core.errors import SchedulerError, UnknownAppException
from torchx_core.schedulers import UsageSample
from torchx_core.schedulers.sampling import Sampler
from torchx_core.specs import Usage
from torchx_core.testing import FakeClock


def sample(time: float, *, replica: int = 0, attempt: int = 0, **figures: float) -> UsageSample:
    """A replica's usage at that time."""
    usage = Usage.from_json(figures)
    return UsageSample(role="r", replica=replica, attempt=attempt, usage=usage, time=time)


class Looks:
    """Returns what a script says, look by look; each takes so long."""

    def __init__(
        self, clock: FakeClock, *script: Sequence[UsageSample] | Exception, takes_s: float = 0.0
    ) -> None:
        self.left = list(script)
        self._clock = clock
        self._takes_s = takes_s

    def __call__(self) -> Sequence[UsageSample]:
        self._clock.advance(self._takes_s)
        answer = self.left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def usages(sampler: Sampler) -> list[Usage]:
    """Look, and return what was seen."""
    return [sample.usage for sample in sampler.take()]


def test_how_busy_the_cpu_was_takes_two_looks() -> None:
    """Of the same attempt; a replica that is new, or starts again, is looked at for the first time."""
    clock = FakeClock()
    looks = Looks(
        clock,
        [sample(10.0, cpu_s=1.0)],
        [sample(12.0, cpu_s=4.0), sample(12.0, replica=1, cpu_s=9.0)],
        [sample(13.0, attempt=1, cpu_s=0.5), sample(13.0, replica=1, cpu_s=9.25)],
        [sample(14.0, attempt=1), sample(14.0, replica=1, cpu_s=8.0)],
        [sample(14.0, replica=1, cpu_s=8.0)],
        [sample(14.0, replica=1, cpu_s=20.0)],
    )
    sampler = Sampler(looks, clock=clock)
    assert usages(sampler) == [Usage(cpu_s=1.0)]
    assert usages(sampler) == [Usage(cpu_s=4.0, cpu_percent=150.0), Usage(cpu_s=9.0)]
    assert usages(sampler) == [Usage(cpu_s=0.5), Usage(cpu_s=9.25, cpu_percent=25.0)]
    assert usages(sampler) == [Usage(), Usage(cpu_s=8.0, cpu_percent=0.0)]  # less than before: no speed
    assert usages(sampler) == [Usage(cpu_s=8.0, cpu_percent=0.0)]  # a busy node's last answer, again
    assert usages(sampler) == [Usage(cpu_s=20.0)]  # the clock stood still


def test_the_peak_is_the_most_that_was_seen_unless_the_scheduler_knows() -> None:
    """A backend that tells the peak is believed; one that tells nothing is not helped with zeros."""
    clock = FakeClock()
    looks = Looks(
        clock,
        [sample(1.0, memory_bytes=7), sample(1.0, replica=1, memory_bytes=7, memory_peak_bytes=90)],
        [sample(2.0, memory_bytes=5), sample(2.0, replica=1, memory_bytes=5, memory_peak_bytes=95)],
        [sample(3.0)],
    )
    sampler = Sampler(looks, clock=clock)
    assert [usage.memory_peak_bytes for usage in usages(sampler)] == [7, 90]
    assert [usage.memory_peak_bytes for usage in usages(sampler)] == [7, 95]
    assert usages(sampler) == [Usage()]


def test_when_it_looks() -> None:
    """At once, soon again until there are two samples, then at its pace; later while others are told."""
    clock = FakeClock()
    looks = Looks(clock, [], [sample(1.0, cpu_s=1.0)], [sample(2.0, cpu_s=1.0)], [])
    sampler = Sampler(looks, 5.0, clock)
    assert sampler.is_due()
    assert not sampler.is_due(busy=True)
    pauses: list[float] = []
    while looks.left:
        sampler.take()
        pauses.append(sampler.left_s)
        clock.advance(sampler.left_s)
        assert sampler.is_due()
        assert not sampler.is_due(busy=True)
    assert pauses == [1.0, 1.0, 5.0, 5.0]
    clock.advance(5.0)
    assert sampler.is_due(busy=True)


def test_a_scheduler_that_is_slow_to_say_is_asked_less_often() -> None:
    """Looking takes a tenth of the time at most."""
    clock = FakeClock()
    sampler = Sampler(Looks(clock, [], takes_s=2.0), 5.0, clock)
    sampler.take()
    assert sampler.left_s == 18.0


@pytest.mark.parametrize(
    "error", [SchedulerError("away", retryable=True), UnknownAppException("x://s/gone"), SchedulerError("no")]
)
def test_a_look_that_fails_ends_nothing(error: Exception) -> None:
    """Following goes on without it, and the next look compares with the last that did not."""
    clock = FakeClock()
    looks = Looks(clock, [sample(10.0, cpu_s=1.0)], error, [sample(20.0, cpu_s=6.0)])
    sampler = Sampler(looks, clock=clock)
    assert len(sampler.take()) == 1
    assert sampler.take() == ()
    assert usages(sampler) == [Usage(cpu_s=6.0, cpu_percent=50.0)]
