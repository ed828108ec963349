"""All parts of the contract together."""

from __future__ import annotations

from torchx_core.testing.contract.follow import FollowContract
from torchx_core.testing.contract.inside import InsideContract
from torchx_core.testing.contract.outcome import OutcomeContract
from torchx_core.testing.contract.records import RecordsContract
from torchx_core.testing.contract.reports import ReportsContract
from torchx_core.testing.contract.stop import StopContract
from torchx_core.testing.contract.submit import SubmitContract
from torchx_core.testing.contract.surroundings import SurroundingsContract
from torchx_core.testing.contract.survival import SurvivalContract
from torchx_core.testing.contract.usage import UsageContract
from torchx_core.testing.contract.workspaces import WorkspacesContract

__all__ = ["SchedulerContract"]


class SchedulerContract(
    SubmitContract,
    SurroundingsContract,
    OutcomeContract,
    StopContract,
    RecordsContract,
    FollowContract,
    InsideContract,
    ReportsContract,
    SurvivalContract,
    UsageContract,
    WorkspacesContract,
):
    """All promises; see `torchx_core.testing.contract.base.ContractBase` for what an author sets."""

    __test__ = False
