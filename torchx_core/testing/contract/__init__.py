"""What every scheduler promises, as tests that its author inherits.

::

    class TestMyScheduler(SchedulerContract):
        backend = "mine"

        @pytest.fixture
        def new_runner(self, tmp_path):
            return functools.partial(Runner, "session", {"mine": MyFactory(tmp_path)})

A promise that belongs to a capability is tested where ``Scheduler.capabilities`` claims it, and skipped otherwise.
"""

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{part}"
        for part in ("base", "follow", "outcome", "records", "reports", "stop", "submit", "survival")
    )
)  # before they are imported, so that a failed promise shows its values

from torchx_core.testing.contract.follow import FollowContract  # noqa: E402  # see above
from torchx_core.testing.contract.outcome import OutcomeContract  # noqa: E402
from torchx_core.testing.contract.records import RecordsContract  # noqa: E402
from torchx_core.testing.contract.reports import ReportsContract  # noqa: E402
from torchx_core.testing.contract.stop import StopContract  # noqa: E402
from torchx_core.testing.contract.submit import SubmitContract  # noqa: E402
from torchx_core.testing.contract.survival import SurvivalContract  # noqa: E402

__all__ = ["SchedulerContract"]


class SchedulerContract(
    SubmitContract,
    OutcomeContract,
    StopContract,
    RecordsContract,
    FollowContract,
    ReportsContract,
    SurvivalContract,
):
    """All promises; see `torchx_core.testing.contract.base.ContractBase` for what an author sets."""

    __test__ = False
