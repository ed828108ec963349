"""A scheduler whose apps wait in a queue, where no replica has a host; it is called ``queueing``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from plugged import plugged_in

from torchx_core.schedulers import DescribeAppResponse, FollowOptions, Scheduler
from torchx_core.schedulers.local import LocalRequest
from torchx_core.schedulers.local.record import AppRecord
from torchx_core.specs import AppState, RoleStatus
from torchx_core.testing import FakeHost
from torchx_core.testing.fake.app import FakeApp
from torchx_core.testing.fake.feed import FakeFeed
from torchx_core.testing.fake.scheduler import FakeScheduler

__all__ = ["QUEUE", "create_scheduler", "queueing"]


class _QueuedApp(FakeApp):
    """Begins no earlier than the queue lets it."""

    def turn(self) -> bool:
        return QUEUE.is_open and super().turn()


class _Queue(FakeHost):
    """Opens once an app has been followed so many times."""

    def __init__(self) -> None:
        super().__init__(backend="queueing")
        self.feeds_left = 1

    @property
    def is_open(self) -> bool:
        return self.feeds_left <= 0

    def create(self, record: AppRecord) -> FakeApp:
        return _QueuedApp(record, [self.script(replica) for replica in record.plan.replicas], self.clock)


class _QueueingScheduler(FakeScheduler):
    def describe(self, app_id: str) -> DescribeAppResponse | None:
        found = super().describe(app_id)
        if found is None or found.state is not AppState.SUBMITTED:
            return found
        return replace(found, roles_statuses=[_without_hosts(role) for role in found.roles_statuses])

    def feed(self, app_id: str, cursor: str | None, options: FollowOptions) -> FakeFeed:
        QUEUE.feeds_left -= 1
        return super().feed(app_id, cursor, options)


def _without_hosts(role: RoleStatus) -> RoleStatus:
    return RoleStatus(role.role, [replace(replica, hostname="", hostaddr="") for replica in role.replicas])


QUEUE = _Queue()


def create_scheduler(session_name: str, **_params: object) -> Scheduler[LocalRequest]:
    """Return the scheduler of a session: what the entry point names."""
    return _QueueingScheduler(QUEUE, session_name)


@contextmanager
def queueing(folder: Path, *, opens_at_feed: int) -> Iterator[None]:
    """Install the scheduler for a while; its queue opens when an app is followed for the nth time."""
    QUEUE.feeds_left = opens_at_feed
    try:
        with plugged_in(folder, "queueing", "queueing:create_scheduler"):
            yield
    finally:
        QUEUE.apps.clear()
