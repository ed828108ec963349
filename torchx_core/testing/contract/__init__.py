"""What every scheduler promises, as tests that its author inherits.

::

    class TestMyScheduler(SchedulerContract):
        backend = "mine"

        @pytest.fixture
        def new_runner(self, tmp_path):
            return functools.partial(Runner, "session", {"mine": MyFactory(tmp_path)})

A promise that belongs to a capability is tested where ``Scheduler.capabilities`` claims it.
"""

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in (
            "base",
            "follow",
            "inside",
            "outcome",
            "records",
            "reports",
            "stop",
            "submit",
            "surroundings",
            "survival",
            "usage",
            "whole",
            "workspaces",
        )
    )
)  # before they are imported, so that a failed promise shows its values

from torchx_core.testing.contract.whole import SchedulerContract  # noqa: E402  # see above

__all__ = ["SchedulerContract"]
