"""A scheduler without processes, files or threads, for tests of what uses a scheduler."""

from torchx_core.testing.fake.host import FakeHost, fake_runner
from torchx_core.testing.fake.scheduler import FakeScheduler

__all__ = ["FakeHost", "FakeScheduler", "fake_runner"]
