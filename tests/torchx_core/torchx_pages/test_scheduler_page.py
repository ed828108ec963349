"""TorchX's page of ``schedulers.api``: each thing that it says, a test or a case of one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pytest
from torchx_sides import MISSING, accepts, ours, theirs, told

from torchx_core.schedulers import api
from torchx_core.specs import NULL_RESOURCE, AppDef, AppDryRunInfo, AppState, Resource, Role, runopts

ABSTRACT = {"schedule", "_submit_dryrun", "describe", "_cancel_existing"}
METHODS = [
    "close",
    "submit",
    "schedule",
    "submit_dryrun",
    "run_opts",
    "describe",
    "exists",
    "cancel",
    "log_iter",
]
LOG_ITER = [
    ("app_id", MISSING),
    ("role_name", MISSING),
    ("k", 0),
    ("regex", None),
    ("since", None),
    ("until", None),
    ("should_tail", False),
    ("streams", None),
]


def bench(side: Any) -> Any:
    """Return a scheduler that is written for the interface of one side; it has the app ``here``."""
    base, specs = side("schedulers.api"), side("specs")

    class Bench(base.Scheduler):  # type: ignore[misc, name-defined]  # whichever
        def __init__(self) -> None:
            super().__init__("bench", "session")  # pyright: ignore[reportUnknownMemberType]
            self.submitted: list[object] = []
            self.cancelled: list[str] = []

        def run_opts(self) -> Any:
            opts = specs.runopts()
            opts.add("queue", type_=str, default="main", help="where")
            return opts

        def _submit_dryrun(self, app: Any, cfg: Any) -> Any:
            return specs.AppDryRunInfo([app.name, cfg["queue"]], repr)

        def schedule(self, dryrun_info: Any) -> str:
            self.submitted.append(dryrun_info.request)
            return "here"

        def describe(self, app_id: str) -> Any:
            return base.DescribeAppResponse(app_id) if app_id == "here" else None

        def list(self, cfg: Any = None) -> Any:  # noqa: ARG002
            return []

        def _cancel_existing(self, app_id: str) -> None:
            self.cancelled.append(app_id)

    return Bench()


def an_app(side: Any, *roles: Any) -> Any:
    """Return an app of that side."""
    specs = side("specs")
    role = specs.Role("r", "img", entrypoint="true", resource=specs.Resource(cpu=1, gpu=0, memMB=1))
    return specs.AppDef("app", list(roles or [role]))


SIDES = pytest.mark.parametrize("side", [ours, theirs], ids=["ours", "theirs"])


@pytest.mark.parametrize(
    ("name", "value"), [("STDOUT", "stdout"), ("STDERR", "stderr"), ("COMBINED", "combined")]
)
def test_a_stream_is_a_text(name: str, value: str) -> None:
    """Of its name."""
    assert getattr(api.Stream, name) == value == getattr(theirs("schedulers.api.Stream"), name)


DESCRIPTION: list[tuple[str, Any]] = [
    ("app_id", "<NOT_SET>"),
    ("state", AppState.UNSUBMITTED),
    ("num_restarts", -1),
    ("msg", "<NONE>"),
    ("structured_error_msg", "<NONE>"),
    ("ui_url", None),
    ("roles_statuses", []),
    ("roles", []),
]


@pytest.mark.parametrize(("name", "default"), DESCRIPTION)
def test_a_description_has_a_field(name: str, default: Any) -> None:
    """With its default: one is made without arguments, and its fields are read and set."""
    description = api.DescribeAppResponse()
    assert getattr(description, name) == default
    setattr(description, name, default)
    assert name in {f.name for f in dataclasses.fields(theirs("schedulers.api.DescribeAppResponse"))}


@pytest.mark.parametrize("name", sorted(ABSTRACT))
def test_what_must_be_implemented(name: str) -> None:
    """Nothing else, so that a scheduler that is written for TorchX can be made."""
    assert name in api.Scheduler.__abstractmethods__ == ABSTRACT
    assert name in theirs("schedulers.api.Scheduler").__abstractmethods__


@pytest.mark.parametrize("name", METHODS)
def test_what_a_scheduler_can_do(name: str) -> None:
    """Its own interface, and every scheduler of this package."""
    for cls in (api.Scheduler, ours("schedulers.Scheduler"), theirs("schedulers.api.Scheduler")):
        assert callable(getattr(cls, name))


@SIDES
def test_a_scheduler_has_a_name_and_a_session(side: Any) -> None:
    """As it was made with them."""
    scheduler = bench(side)
    assert (scheduler.backend, scheduler.session_name) == ("bench", "session")


@SIDES
def test_closing_is_allowed_more_than_once(side: Any) -> None:
    """And raises nothing."""
    scheduler = bench(side)
    scheduler.close()
    scheduler.close()


@SIDES
def test_to_submit_is_to_dry_run_and_to_schedule(side: Any) -> None:
    """The answer is the app's id."""
    scheduler = bench(side)
    assert scheduler.submit(an_app(side), {"queue": "big"}) == "here"
    assert scheduler.submitted == [["app", "big"]]


@SIDES
def test_a_dry_run_submits_nothing(side: Any) -> None:
    """It returns the request, after the options were resolved, and what it was made of."""
    scheduler, app = bench(side), an_app(side)
    info = scheduler.submit_dryrun(app, {})
    assert (info.request, scheduler.submitted) == (["app", "main"], [])
    assert (info.app is app, dict(info.cfg)) == (True, {"queue": "main"})


@SIDES
def test_each_roles_hook_changes_the_request(side: Any) -> None:
    """In the order of the roles, with the scheduler's name."""
    specs = side("specs")

    class Signing(specs.Role):  # type: ignore[misc, name-defined]  # whichever
        def pre_proc(self, scheduler: str, dryrun_info: Any) -> Any:
            dryrun_info.request.append(f"{self.name}@{scheduler}")
            return dryrun_info

    resource = specs.Resource(cpu=1, gpu=0, memMB=1)
    app = an_app(side, *(Signing(name, "img", entrypoint="true", resource=resource) for name in "ab"))
    assert bench(side).submit_dryrun(app, {}).request == ["app", "main", "a@bench", "b@bench"]


@SIDES
def test_options_that_do_not_fit_submit_nothing(side: Any) -> None:
    """A wrong type is an InvalidRunConfigException."""
    scheduler = bench(side)
    with pytest.raises(side("specs").InvalidRunConfigException):
        scheduler.submit(an_app(side), {"queue": 3})
    assert scheduler.submitted == []


@SIDES
def test_a_scheduler_has_no_options_by_default(side: Any) -> None:
    """They are an empty runopts."""
    base = side("schedulers.api.Scheduler")
    assert len(base.run_opts(bench(side))) == 0


@SIDES
@pytest.mark.parametrize("app_id", ["here", "nowhere"])
def test_an_app_exists_that_can_be_described(side: Any, app_id: str) -> None:
    """And only such a one is cancelled; of another nothing happens."""
    scheduler = bench(side)
    assert scheduler.exists(app_id) == (app_id == "here")
    scheduler.cancel(app_id)
    assert scheduler.cancelled == (["here"] if app_id == "here" else [])


@SIDES
def test_a_scheduler_may_have_no_logs(side: Any) -> None:
    """By default that is a NotImplementedError that names the class."""
    with pytest.raises(NotImplementedError, match="Bench"):
        bench(side).log_iter("here", "r")


@pytest.mark.parametrize(
    "cls", ["schedulers.api.Scheduler", "schedulers.Scheduler", "schedulers.local_scheduler.LocalScheduler",
            "schedulers.docker_scheduler.DockerScheduler"]
)  # fmt: skip
def test_logs_are_read_so(cls: str) -> None:
    """By position or by name, with these defaults, everywhere."""
    assert accepts(ours(cls).log_iter, LOG_ITER)


def test_a_submit_takes_a_workspace() -> None:
    """By position or by name."""
    parameters = [("app", MISSING), ("cfg", MISSING), ("workspace", None)]
    assert accepts(ours("schedulers.api.Scheduler.submit"), parameters)


@SIDES
@pytest.mark.parametrize("has_resource", [True, False])
def test_an_app_without_a_resource_is_not_valid(side: Any, has_resource: bool) -> None:
    """By default; the error is a ValueError."""
    specs = side("specs")
    role = specs.Role("r", "img", entrypoint="true")
    if has_resource:
        role.resource = specs.Resource(cpu=1, gpu=0, memMB=1)
    answer = told(bench(side)._validate, an_app(side, role), "bench", {})  # noqa: SLF001  # the page's hook
    assert answer == (None if has_resource else "raises ValueError")


@pytest.mark.parametrize("regex", ["a", "^b", "x", "", "[ab]+$"])
def test_lines_are_filtered(regex: str) -> None:
    """Those in which it is found, one after the other."""
    lines = ["abc\n", "bcd\n", "ab"]
    filtered: Iterable[str] = api.filter_regex(regex, iter(lines))
    assert list(filtered) == list(theirs("schedulers.api.filter_regex")(regex, iter(lines)))


@pytest.mark.parametrize("text", ["", "a", "a\n", "a\nb", "\n", "\n\n", "a\r\nb\x0bc\x0c\x85d\u2028e", "\na"])
def test_a_text_is_split_at_line_ends(text: str) -> None:
    """Which are kept; only a newline is one."""
    assert api.split_lines(text) == theirs("schedulers.api.split_lines")(text)


@pytest.mark.parametrize(
    "name",
    ["LocalScheduler", "DockerScheduler", "CWDImageProvider", "Bench"],
    ids=["local", "docker", "no", "bench"],
)
def test_what_is_a_scheduler(name: str) -> None:
    """One of ours is one as well as one that was written for the interface."""
    classes: dict[str, type] = {
        "LocalScheduler": ours("schedulers.local_scheduler.LocalScheduler"),
        "DockerScheduler": ours("schedulers.docker_scheduler.DockerScheduler"),
        "CWDImageProvider": ours("schedulers.local_scheduler.CWDImageProvider"),
        "Bench": type(bench(ours)),
    }
    assert issubclass(classes[name], api.Scheduler) == (name != "CWDImageProvider")


def test_names_are_there() -> None:
    """Those that the page imports and defines."""
    assert (NULL_RESOURCE.cpu, len(runopts()), AppDef("a").roles) == (-1, 0, [])
    assert Role("r", "img", resource=Resource(1, 0, 1)).resource != NULL_RESOURCE
    assert AppDryRunInfo(1, str).request == 1
