"""Reports: what an app says about itself while it runs."""

from __future__ import annotations

from torchx_core.runner import Runner
from torchx_core.schedulers import Metric, Progress, Result
from torchx_core.specs import AppDef, AppState
from torchx_core.testing.contract.base import ContractBase, each_event
from torchx_core.testing.steps import Exit, ReportMetric, ReportProgress, ReportResult

__all__ = ["ReportsContract"]

_RESULT = {"accuracy": 0.97, "classes": ["a", "ü"], "nested": {"none": None, "yes": True}}


class ReportsContract(ContractBase):
    """Progress, metrics and a result reach whoever follows."""

    __test__ = False

    def test_progress_and_metrics_arrive_in_order(self, runner: Runner) -> None:
        """With the replica they come from, also after the end."""
        self.needs(runner, "reports")
        app = self.app(
            ReportProgress(0.5, "half: way"), ReportMetric("loss", 0.25, 3), ReportMetric("lr", 1e-4)
        )
        handle = self.run(runner, app)
        self.end(runner, handle)
        reports = [e for e in each_event(runner.follow(handle)) if isinstance(e, Progress | Metric)]
        assert all((e.role, e.replica, e.attempt) == ("worker", 0, 0) for e in reports)
        told = [
            (e.fraction, e.message) if isinstance(e, Progress) else (e.name, e.value, e.step) for e in reports
        ]
        assert told == [(0.5, "half: way"), ("loss", 0.25, 3), ("lr", 1e-4, None)]

    def test_the_result_is_in_the_status(self, runner: Runner, other: Runner) -> None:
        """The last one reported, whatever JSON value it is; the stream has all of them."""
        self.needs(runner, "reports")
        handle = self.run(runner, self.app(ReportResult("draft"), ReportResult(_RESULT)))
        assert self.end(runner, handle).result == _RESULT
        status = other.status(handle)
        assert status is not None
        assert status.result == _RESULT
        results = [e.value for e in each_event(other.follow(handle)) if isinstance(e, Result)]
        assert results == ["draft", _RESULT]

    def test_a_failed_app_keeps_its_result(self, runner: Runner) -> None:
        """What it reported before it failed is not lost."""
        self.needs(runner, "reports")
        status = self.end(runner, self.run(runner, self.app(ReportResult({"epoch": 3}), Exit(1))))
        assert status.state == AppState.FAILED
        assert status.result == {"epoch": 3}

    def test_an_app_without_a_result_has_none(self, runner: Runner) -> None:
        """The status says None."""
        assert self.end(runner, self.run(runner, self.app(Exit(0)))).result is None

    def test_reports_of_other_roles_can_be_left_out(self, runner: Runner) -> None:
        """Following one role shows its reports only."""
        self.needs(runner, "reports")
        roles = [self.role("a", ReportProgress(0.1)), self.role("b", ReportProgress(0.9))]
        handle = self.run(runner, AppDef("two", roles))
        reports = [e for e in each_event(runner.follow(handle, roles=["b"])) if isinstance(e, Progress)]
        assert [report.fraction for report in reports] == [0.9]
