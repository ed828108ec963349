"""What every scheduler inherits: the frame of a dry run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from torchx_core import AppDef, Resource, Role
from torchx_core.errors import InvalidAppError
from torchx_core.specs import AppDryRunInfo, macros
from torchx_core.testing import fake_runner

T = TypeVar("T")


@dataclass
class Signed(Role):
    """A role that adds its name to the request's first argument list."""

    def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[T]) -> AppDryRunInfo[T]:
        request: Any = dryrun_info.request
        env = next(iter(request.role_params.values()))[0].env
        env["SIGNED"] = f"{env.get('SIGNED', '')}{self.name}@{scheduler} "
        return dryrun_info


class Forgetful(Role):
    """A role whose hook returns nothing."""

    def pre_proc(self, scheduler: str, dryrun_info: AppDryRunInfo[T]) -> AppDryRunInfo[T]:  # type: ignore[empty-body]
        """Forget to return."""


def test_each_roles_hook_may_change_the_request() -> None:
    """In the order of the roles, and the same way each time."""
    app = AppDef("app", [Signed("one", "", entrypoint="fake"), Signed("two", "", entrypoint="fake")])
    first, second = (fake_runner().dryrun(app, "fake", app_id="id") for _ in range(2))
    request: Any = first.request
    assert request.plan.replicas[0].env["SIGNED"] == "one@fake two@fake "
    assert str(first) == str(second)


def test_a_hook_that_returns_nothing_is_named() -> None:
    """The role is, and what its hook must do."""
    with pytest.raises(InvalidAppError, match=r"roles\['r'\].pre_proc: must return the dry run"):
        fake_runner().dryrun(AppDef("app", [Forgetful("r", "", entrypoint="fake")]), "fake")


def test_every_field_reaches_the_scheduler_and_comes_back() -> None:
    """Ports, devices, tags, capabilities and nested metadata, as they were authored."""
    role = Role(
        "r",
        "",
        entrypoint="fake",
        port_map={"http": 8080, "grpc": 9090},
        resource=Resource(1, 0, 2, capabilities={"a": [1]}, devices={"efa": 4}, tags={"t": {"x": None}}),
        metadata={"kubernetes": {"labels": [f"{macros.app_id}", {"n": 1}]}},
    )
    runner = fake_runner()
    info = runner.dryrun(AppDef("app", [role]), "fake")
    described = runner.describe(runner.schedule(info))
    assert described is not None
    (back,) = described.roles
    assert (back.port_map, back.resource, back.metadata) == (role.port_map, role.resource, role.metadata)


@pytest.mark.parametrize("port", [0, 65536, "80", True])
def test_a_port_that_is_none_is_refused(port: Any) -> None:
    """By its name, before the scheduler sees it."""
    role = Role("r", "", entrypoint="fake", port_map={"http": port})
    with pytest.raises(InvalidAppError, match=r"roles\[0\].port_map\['http'\]"):
        fake_runner().dryrun(AppDef("app", [role]), "fake")


def test_a_scheduler_with_no_more_to_say_says_nothing() -> None:
    """`describe_native` is None, for a known app and for an unknown one."""
    runner = fake_runner()
    handle = runner.run(AppDef("app", [Role("r", "", entrypoint="fake")]), "fake")
    assert runner.describe_native(handle) is None
    assert runner.describe_native(handle + "x") is None
