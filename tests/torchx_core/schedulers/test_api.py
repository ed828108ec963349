from __future__ import annotations

from typing import Any

import pytest

from torchx_core.schedulers import DescribeAppResponse
from torchx_core.schedulers.api import Scheduler, filter_regex, split_lines, split_lines_iterator
from torchx_core.specs import AppDef, AppDryRunInfo, InvalidRunConfigException, Resource, Role, runopts


class Counter(Scheduler[Any]):
    """As a third party writes it for TorchX; it has one app, which it ends when asked."""

    def __init__(self) -> None:
        super().__init__("counter", "session")
        self.cancelled: list[str] = []

    def run_opts(self) -> runopts:
        opts = runopts()
        opts.add("queue", str, "where", required=True)
        return opts

    def _submit_dryrun(self, app: AppDef, cfg: Any) -> AppDryRunInfo[Any]:
        return AppDryRunInfo((app.name, cfg["queue"]), repr)

    def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> str:
        return "-".join(dryrun_info.request)

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        return DescribeAppResponse(app_id) if app_id == "app-q" else None

    def check(self, app: AppDef) -> None:
        self._validate(app, self.backend, {})  # the hook that TorchX's runner calls

    def _cancel_existing(self, app_id: str) -> None:
        self.cancelled.append(app_id)


APP = AppDef("app", [Role("main", image="", entrypoint="true", resource=Resource(1, 0, 1))])


def test_submit_is_a_dry_run_and_a_schedule() -> None:
    """Options are resolved, and the dry run says what it was made of."""
    scheduler = Counter()
    assert scheduler.submit(APP, {"queue": "q"}) == "app-q"
    info = scheduler.submit_dryrun(APP, {"queue": "q"})
    assert (info.app, info.cfg, info.scheduler) == (APP, {"queue": "q"}, "counter")
    with pytest.raises(InvalidRunConfigException, match="queue"):
        scheduler.submit(APP, {})
    with pytest.raises(ValueError, match="workspace"):
        scheduler.submit(APP, {"queue": "q"}, workspace="/somewhere")


def test_each_role_sees_the_dry_run() -> None:
    """A role's ``pre_proc`` may change the request, as in TorchX."""

    class Doubling(Role):
        def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[Any]) -> AppDryRunInfo[Any]:
            dryrun_info.request = (scheduler, *dryrun_info.request)
            return dryrun_info

    app = AppDef("app", [Doubling("main", image="", entrypoint="true")])
    assert Counter().submit_dryrun(app, {"queue": "q"}).request == ("counter", "app", "q")


def test_only_an_app_that_exists_is_cancelled_or_deleted() -> None:
    """Another id is no error, and the scheduler's own code never hears of it."""
    scheduler = Counter()
    for call in (scheduler.cancel, scheduler.delete):
        call("unknown")
        call("app-q")
    assert scheduler.cancelled == ["app-q", "app-q"]
    assert scheduler.exists("app-q")


def test_what_is_not_implemented_says_so() -> None:
    """Logs and lists are a scheduler's own choice."""
    with pytest.raises(NotImplementedError, match="Counter"):
        Counter().log_iter("app-q", "main")
    with pytest.raises(NotImplementedError, match="Counter"):
        Counter().list()
    assert Counter().describe_native("app-q") is None


def test_a_role_without_a_resource_is_refused() -> None:
    """As TorchX does, unless the scheduler overrides the check."""
    bare = AppDef("app", [Role("main", image="img", entrypoint="true")])
    with pytest.raises(ValueError, match=r"'main'.*no resource"):
        Counter().check(bare)
    Counter().check(APP)


def test_lines_keep_their_ends() -> None:
    """Only a newline ends a line; each text is split by itself."""
    assert split_lines("") == []
    assert split_lines("a\r\n\nb") == ["a\r\n", "\n", "b"]
    assert list(split_lines_iterator(["a\nb", "c\n"])) == ["a\n", "b", "c\n"]
    assert list(filter_regex("b+", ["abc", "a", "bb"])) == ["abc", "bb"]
