from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import pytest

from torchx_core.errors import InvalidRunConfigException
from torchx_core.schedulers.api import DescribeAppResponse, Scheduler, StructuredOpts
from torchx_core.specs import AppDef, AppDryRunInfo, CfgVal, runopts

SOURCE = '''
@dataclass
class Place(StructuredOpts):
    context: str | None = None
    """Which cluster."""
    depth: int = 2

@dataclass
class Opts(StructuredOpts):
    cluster_name: str
    """Where to run;
    it has a name."""
    mail_user: str | None = field(default=None, metadata={"cfg_key": "mail-user"})
    tags: list[str] = field(default_factory=list)
    k8s: Place = field(default_factory=Place)
'''


@dataclass
class Place(StructuredOpts):
    """A group."""

    context: str | None = None
    """Which cluster."""
    depth: int = 2


@dataclass
class Opts(StructuredOpts):
    """Every kind of field that there is."""

    cluster_name: str
    """Where to run;
    it has a name."""
    mail_user: str | None = field(default=None, metadata={"cfg_key": "mail-user"})
    tags: list[str] = field(default_factory=list[str])
    k8s: Place = field(default_factory=Place)


@pytest.fixture(scope="module")
def theirs() -> Any:
    """Return the same class, derived from TorchX's."""
    namespace: dict[str, Any] = {
        "dataclass": dataclass,
        "field": field,
        "StructuredOpts": import_module("torchx.schedulers.api").StructuredOpts,
    }
    exec(compile(SOURCE, "theirs", "exec", dont_inherit=True), namespace)  # noqa: S102  # our own text
    return namespace["Opts"]


CFGS: list[Mapping[str, CfgVal]] = [
    {"cluster_name": "a"},
    {"clusterName": "a", "mail-user": "me", "tags": ["x"]},
    {"cluster_name": "a", "mail_user": "me", "k8s.context": "prod"},
    {"cluster_name": "a", "k8s.depth": 3, "image_repo": "more than the fields"},
]


@pytest.mark.parametrize("cfg", CFGS)
def test_an_instance_has_what_torchx_gives(cfg: Mapping[str, CfgVal], theirs: Any) -> None:
    """The same names and values as a mapping, and the same attributes."""
    mine, other = Opts.from_cfg(cfg), theirs.from_cfg(cfg)
    assert dict(mine) == dict(other)
    assert len(mine) == len(other)
    assert (mine.cluster_name, mine.mail_user, mine.tags) == (other.cluster_name, other.mail_user, other.tags)
    assert (mine.k8s.context, mine.k8s.depth) == (other.k8s.context, other.k8s.depth)
    for name in (*cfg, "clusterName", "mail_user", "k8s.depth", "unknown", "get"):
        assert (name in mine) == (name in other), name
        assert mine.get(name) == other.get(name), name


def test_the_options_are_those_that_torchx_makes(theirs: Any) -> None:
    """Name, default and whether it is required."""
    mine = [(key, opt.default, opt.is_required) for key, opt in Opts.as_runopts()]
    assert mine == [(key, opt.default, opt.is_required) for key, opt in theirs.as_runopts()]


def test_the_text_below_a_field_is_its_help() -> None:
    """A field without one has its name."""
    helps = {key: opt.help for key, opt in Opts.as_runopts()}
    assert helps["cluster_name"] == "Where to run;\nit has a name."
    assert (helps["k8s.context"], helps["k8s.depth"]) == ("Which cluster.", "depth")


def test_two_names_with_different_values_are_refused() -> None:
    """Equal ones are taken."""
    assert Opts.from_cfg({"cluster_name": "a", "clusterName": "a"}).cluster_name == "a"
    with pytest.raises(InvalidRunConfigException, match="clusterName"):
        Opts.from_cfg({"cluster_name": "a", "clusterName": "b"})


def test_two_sets_of_options_are_merged() -> None:
    """The right one's values win."""
    assert Place("a") | Place("b", 5) == {"context": "b", "depth": 5}


def test_options_of_a_class_in_a_function_can_be_read() -> None:
    """By every name, also in a group: the types, which nobody can look up from elsewhere, are not needed."""

    @dataclass
    class Inner(StructuredOpts):
        val: str = "inner"

    @dataclass
    class Outer(StructuredOpts):
        child_group: Inner = field(default_factory=Inner)
        mail_user: str | None = field(default=None, metadata={"cfg_key": "mail-user"})

    opts = Outer(mail_user="me")
    assert (opts["childGroup.val"], opts["child_group.val"]) == ("inner", "inner")
    assert (opts["mail-user"], opts["mailUser"], opts["mail_user"]) == ("me", "me", "me")
    for nothing in ("child_group", "val", "mailUser.val", "_extra_cfg"):
        with pytest.raises(KeyError):
            opts[nothing]


class Clock(Scheduler[Opts]):
    """Names the class of its options, as TorchX's schedulers do."""

    def _run_opts(self) -> runopts:
        return Opts.as_runopts()

    def _submit_dryrun(self, app: AppDef, cfg: Opts) -> AppDryRunInfo[Any]:
        return AppDryRunInfo(f"{app.name} on {cfg.cluster_name}, {cfg.k8s.depth} deep", str)

    def schedule(self, dryrun_info: AppDryRunInfo[Any]) -> str:
        return str(dryrun_info.request)

    def describe(self, app_id: str) -> DescribeAppResponse | None:
        return DescribeAppResponse(app_id)

    def _cancel_existing(self, app_id: str) -> None:
        """There is never one."""


def test_a_scheduler_is_given_its_own_class_of_options() -> None:
    """Resolved first: a required option that is missing is told as always."""
    clock = Clock("clock", "session")
    assert clock.submit(AppDef("app"), {"clusterName": "a", "k8s.depth": 4}) == "app on a, 4 deep"
    with pytest.raises(InvalidRunConfigException, match="cluster_name"):
        clock.submit(AppDef("app"), {})
