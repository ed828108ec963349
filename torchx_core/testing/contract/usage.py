"""Usage: what replicas use while they run, and what they had used when they ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

import pytest

from torchx_core.errors import UnknownAppException
from torchx_core.runner import Runner
from torchx_core.schedulers import Batch, UsageSample
from torchx_core.specs import AppDef
from torchx_core.testing.contract.base import UP, ContractBase, each_event, each_line, in_order
from torchx_core.testing.steps import Exit, FailUntil, Hold, Print, Use

__all__ = ["UsageContract"]

_MB = 1 << 20
_CPU_S, _MEMORY_MB = 0.3, 64
_USE = Use(_CPU_S, _MEMORY_MB)


class UsageContract(ContractBase):
    """Figures are those of the replica's own processes; what is not known is None."""

    __test__ = False

    def test_what_was_used_is_in_the_status(self, runner: Runner) -> None:
        """CPU time, peak, and how long it ran; in the stream's last event as well."""
        self.needs(runner, "usage")
        handle = self.run(runner, self.app(_USE))
        status = self.end(runner, handle)
        usage = status.roles[0].replicas[0].usage
        assert usage.cpu_s is not None
        assert _CPU_S <= usage.cpu_s < 100 * _CPU_S
        assert usage.memory_peak_bytes is not None
        assert _MEMORY_MB * _MB <= usage.memory_peak_bytes < 100 * _MEMORY_MB * _MB
        assert usage.wall_s is not None
        assert (usage.memory_bytes, usage.processes, usage.cpu_percent) == (None, None, None)
        assert [batch.final_status for batch in runner.follow(handle)][-1] == status

    def test_attempts_add_up(self, runner: Runner) -> None:
        """A replica that started twice has used what both attempts have."""
        self.needs(runner, "usage")
        self.needs(runner, "retries")
        policy = self.retry_policies[0]
        role = self.role("worker", _USE, FailUntil(1), max_retries=1, retry_policy=policy)
        usage = self.end(runner, self.run(runner, AppDef("twice", [role]))).roles[0].replicas[0].usage
        assert usage.cpu_s is not None
        assert 2 * _CPU_S <= usage.cpu_s < 100 * _CPU_S
        assert usage.memory_peak_bytes is not None
        assert usage.memory_peak_bytes < 2 * _MEMORY_MB * _MB

    def test_usage_is_sampled_while_somebody_asks(self, runner: Runner, other: Runner) -> None:
        """Of each replica, with its attempt; places in the stream are what they are without it."""
        self.needs(runner, "usage")
        handle = self._busy(runner)
        batches = _until_known(runner.follow(handle, usage=True), 2)
        for samples in _samples_by_replica(batches):
            self._check(samples)
        later = other.follow(handle, batches[-1].cursor, until_now=True)
        plain = list(other.follow(handle, until_now=True))
        assert in_order([*_without_samples(batches), *later]) == in_order(plain)
        assert not _samples(plain)

    def test_usage_is_sampled_on_an_event_loop(self, runner: Runner) -> None:
        """`afollow` has the same."""
        self.needs(runner, "usage")
        handle = self._busy(runner)

        async def follow() -> list[Batch]:
            batches: list[Batch] = []
            async for batch in runner.afollow(handle, usage=True):
                batches.append(batch)
                if _is_known(batches, 2):
                    break
            return batches

        for samples in _samples_by_replica(asyncio.run(follow())):
            self._check(samples)

    def test_usage_of_other_roles_can_be_left_out(self, runner: Runner) -> None:
        """Following one role samples its replicas only."""
        self.needs(runner, "usage")
        roles = [self.role(name, _USE, Print(UP), Hold()) for name in ("a", "b")]
        handle = self.run(runner, AppDef("two", roles))
        batches = _until_known(runner.follow(handle, roles=["b"], usage=True), 1)
        assert {sample.role for sample in _samples(batches)} == {"b"}

    def test_usage_can_be_asked_for_once(self, runner: Runner) -> None:
        """Of an app that has ended there is none; of one that there is not it is an error."""
        self.needs(runner, "usage")
        handle = self._busy(runner)
        assert {(s.role, s.replica, s.attempt) for s in runner.usage(handle)} <= {
            ("worker", 0, 0),
            ("worker", 1, 0),
        }
        ended = self.run(runner, self.app(Exit(0)))
        self.end(runner, ended)
        assert list(runner.usage(ended)) == []
        with pytest.raises(UnknownAppException):
            runner.usage(f"{ended}x")

    def _busy(self, runner: Runner) -> str:
        """Submit an app of two replicas; return its handle once both have used what they are to use."""
        handle = self.run(runner, self.app(_USE, Print(UP), Hold(), num_replicas=2))
        if self.claims(runner, "tail"):
            lines = each_line(runner.follow(handle))
            for _ in range(2):
                next(line for line in lines if line.text == UP)
        return handle

    def _check(self, samples: list[UsageSample]) -> None:
        """See that what is known of a replica is true, and that all is known that should be."""
        usage = samples[-1].usage
        assert samples[-1].attempt == 0
        known = {"cpu_s", "cpu_percent", "memory_bytes", "memory_peak_bytes"} - self.not_sampled
        assert known <= usage.to_json().keys()
        assert usage.cpu_s is None or _CPU_S <= usage.cpu_s < 100 * _CPU_S
        assert usage.memory_bytes is None or usage.memory_bytes >= _MEMORY_MB * _MB
        assert (usage.memory_peak_bytes or 0) >= (usage.memory_bytes or 0)
        assert usage.processes is None or usage.processes >= 1


def _until_known(batches: Iterator[Batch], looks: int) -> list[Batch]:
    """Return the batches up to the one in which each of two replicas has so many samples, no two alike."""
    found: list[Batch] = []
    for batch in batches:
        found.append(batch)
        if _is_known(found, looks):
            break
    return found


def _is_known(batches: Iterable[Batch], looks: int) -> bool:
    times = [{sample.time for sample in samples} for samples in _samples_by_replica(batches)]
    return bool(times) and all(len(different) >= looks for different in times)


def _samples(batches: Iterable[Batch]) -> list[UsageSample]:
    return [event for event in each_event(batches) if isinstance(event, UsageSample)]


def _samples_by_replica(batches: Iterable[Batch]) -> list[list[UsageSample]]:
    samples = _samples(batches)
    names = dict.fromkeys((sample.role, sample.replica) for sample in samples)
    return [[s for s in samples if (s.role, s.replica) == name] for name in names]


def _without_samples(batches: Iterable[Batch]) -> list[Batch]:
    return [
        Batch(
            events=tuple(event for event in batch.events if not isinstance(event, UsageSample)),
            cursor=batch.cursor,
        )
        for batch in batches
    ]
