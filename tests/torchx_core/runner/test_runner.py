"""The facade: which scheduler it uses, what it adds to an app, and what it refuses."""

from __future__ import annotations

from contextlib import suppress
from threading import Barrier, BrokenBarrierError, Thread
from types import SimpleNamespace

import pytest

from torchx_core import AppDef, AppState, Role, Runner
from torchx_core.errors import (
    InvalidInputError,
    MalformedAppHandleException,
    UnknownReplicaError,
    UnknownSchedulerException,
)
from torchx_core.schedulers import Scheduler
from torchx_core.specs import AppDryRunInfo
from torchx_core.testing import FakeHost, fake_runner


class CountingHost(FakeHost):
    """Remembers which sessions a scheduler was made for, and which of them were closed."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[str] = []
        self.closed: list[str] = []

    def scheduler(self, session_name: str, **params: object) -> Scheduler[object]:
        self.made.append(session_name)
        scheduler = super().scheduler(session_name, **params)
        scheduler.close = lambda: self.closed.append(session_name)  # type: ignore[method-assign]  # to look at it
        return scheduler


def demo(*steps: str, name: str = "demo") -> AppDef:
    """Return an app with one role that carries out the steps."""
    return AppDef(name, [Role(name="worker", image="", entrypoint="fake", args=list(steps))])


def test_a_scheduler_is_made_when_it_is_first_used() -> None:
    """Making a runner makes no scheduler; using it makes one, once."""
    host = CountingHost()
    runner = Runner("mine", {"fake": host.scheduler})
    assert host.made == []
    runner.run(demo(), "fake")
    runner.list("fake")
    assert host.made == ["mine"]


def test_threads_share_one_scheduler() -> None:
    """Two threads that use a scheduler first at the same time get the same one."""
    host = FakeHost()
    meeting = Barrier(2)
    made: list[str] = []

    def factory(session_name: str, **_params: object) -> Scheduler[object]:
        made.append(session_name)
        with suppress(BrokenBarrierError):
            meeting.wait(0.2)  # both would meet here
        return host.scheduler(session_name)

    runner = Runner("mine", {"fake": factory})
    threads = [Thread(target=runner.scheduler, args=("fake",)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["mine"]


def test_parameters_reach_the_factory() -> None:
    """What `get_runner` is given is passed to every factory."""
    seen: dict[str, object] = {}

    def factory(session_name: str, **params: object) -> Scheduler[object]:
        seen.update(params, session=session_name)
        return FakeHost().scheduler(session_name)

    Runner("mine", {"fake": factory}, scheduler_params={"state_dir": "/x"}).scheduler("fake")
    assert seen == {"session": "mine", "state_dir": "/x"}


def test_the_first_scheduler_is_the_default() -> None:
    """Backends keep the order in which they were given; a runner without any says that it has no default."""
    host = FakeHost()
    runner = Runner("mine", {"zebra": host.scheduler, "ant": host.scheduler})
    assert runner.scheduler_backends() == ["zebra", "ant"]
    assert runner.default_scheduler() == "zebra"
    with pytest.raises(InvalidInputError, match="this runner was given none"):
        Runner("mine", {}).default_scheduler()


def test_an_unknown_scheduler_is_refused_with_the_closest_name() -> None:
    """Before anything else is looked at."""
    with pytest.raises(UnknownSchedulerException, match="did you mean 'fake'"):
        fake_runner().run(demo(), "fkae")


def test_closing_closes_every_scheduler_once() -> None:
    """Schedulers of other sessions are closed too; a closed runner can be used again."""
    host = CountingHost()
    with Runner("mine", {"fake": host.scheduler}) as runner:
        runner.status("fake://mine/a")
        runner.status("fake://yours/a")
    runner.close()
    assert sorted(host.closed) == ["mine", "yours"]
    assert runner.list("fake") == []


def test_a_handle_of_another_session_works() -> None:
    """Any runner can follow, wait for and cancel it; its own list does not have it."""
    host = FakeHost()
    yours, mine = Runner("yours", {"fake": host.scheduler}), Runner("mine", {"fake": host.scheduler})
    handle = yours.run(demo("hold"), "fake")
    assert mine.list("fake") == []
    mine.cancel(handle)
    status = mine.wait(handle, timeout_s=5)
    assert status is not None
    assert status.state == AppState.CANCELLED
    assert [row.app_handle for row in yours.list("fake")] == [handle]


def test_sessions_have_apps_of_the_same_id() -> None:
    """An app id is unique within its session only."""
    host = FakeHost()
    for session in ("a", "b"):
        Runner(session, {"fake": host.scheduler}).run(demo(f"print:{session}"), "fake", app_id="one")
    assert list(host.apps) == [("a", "one"), ("b", "one")]


def test_a_session_may_have_no_name() -> None:
    """As with TorchX, whose Runner("") makes such handles: they lead back to its apps, from any session."""
    host = FakeHost()
    handle = Runner("", {"fake": host.scheduler}).run(demo("print:unnamed"), "fake", app_id="one")
    assert handle == "fake:///one"
    assert list(host.apps) == [("", "one")]
    other = Runner("other", {"fake": host.scheduler})
    assert list(other.log_lines(handle, "worker", should_tail=True)) == ["unnamed\n"]
    assert other.list("fake") == []
    assert [row.app_handle for row in Runner("", {"fake": host.scheduler}).list("fake")] == [handle]


@pytest.mark.parametrize("session", ["a/b", "a b"])
def test_a_session_that_no_handle_can_hold_submits_nothing(session: str) -> None:
    """It is refused before anything runs."""
    host = FakeHost()
    with pytest.raises(MalformedAppHandleException):
        Runner(session, {"fake": host.scheduler}).run(demo(), "fake")
    assert host.apps == {}


@pytest.mark.parametrize("verb", ["status", "wait", "describe", "cancel", "delete", "follow", "owner"])
def test_a_malformed_handle_is_refused_by_every_verb(verb: str) -> None:
    """At once, and not only when a result is looked at."""
    with pytest.raises(MalformedAppHandleException, match="nonsense"):
        getattr(fake_runner(), verb)("nonsense")


def test_a_dry_run_without_a_scheduler_cannot_be_submitted() -> None:
    """Only the runner's own dry runs say where they go."""
    with pytest.raises(ValueError, match="dryrun"):
        fake_runner().schedule(AppDryRunInfo[object]("request", str))


def test_the_callers_app_is_left_alone() -> None:
    """Submitting adds nothing to it."""
    app = demo("print:x")
    before = app.to_dict()
    fake_runner().run(app, "fake", parent_run_id="flow-1")
    assert app.to_dict() == before


def test_replicas_learn_about_their_job() -> None:
    """Each role gets TorchX's variables; what the app set itself stays."""
    app = demo()
    app.roles[0].env = {"TORCHX_INTERNAL_SESSION_ID": "own"}
    info = fake_runner("mine").dryrun(app, "fake", parent_run_id="flow-1", app_id="one")
    assert info.app is not None
    assert info.app.roles[0].env == {
        "TORCHX_JOB_ID": "fake://mine/${app_id}",
        "TORCHX_INTERNAL_SESSION_ID": "own",
        "TORCHX_PARENT_RUN_ID": "flow-1",
    }


def test_an_app_of_torchx_is_accepted() -> None:
    """Anything with an AppDef's attributes will do; torchx itself is not imported."""
    role = SimpleNamespace(name="worker", image="", entrypoint="fake", args=["print:hello"])
    runner = fake_runner()
    handle = runner.run(SimpleNamespace(name="theirs", roles=[role]), "fake")  # type: ignore[arg-type]  # that is the point
    assert list(runner.log_lines(handle, "worker", should_tail=True)) == ["hello\n"]


def test_a_workspace_is_refused_where_nothing_can_build_it() -> None:
    """Where that is asked for, rather than running without the user's files."""
    with pytest.raises(InvalidInputError, match="workspace"):
        fake_runner().run(demo(), "fake", {"unsupported": "refuse"}, workspace="/src")


def test_a_role_that_the_app_has_not_is_refused_with_the_closest_name() -> None:
    """By every verb that takes a role."""
    runner = fake_runner()
    handle = runner.run(demo(), "fake")
    with pytest.raises(UnknownReplicaError, match="did you mean 'worker'"):
        runner.log_lines(handle, "wroker")
    with pytest.raises(UnknownReplicaError, match="did you mean 'worker'"):
        runner.follow(handle, roles=["wroker"])


def test_options_can_be_asked_for() -> None:
    """By the scheduler's name."""
    assert "grace_s" in dict(fake_runner().scheduler_run_opts("fake"))
