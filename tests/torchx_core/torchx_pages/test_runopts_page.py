"""TorchX's page of ``specs.api``, of run options: each thing that it says, a test or a case of one."""

from __future__ import annotations

from typing import Any, Dict, List, Union  # noqa: UP035  # as the page writes them

import pytest
from torchx_sides import MISSING, accepts, ours, theirs, told

from torchx_core import specs
from torchx_core.specs import runopts


@pytest.fixture
def usage() -> runopts:
    """The options of the page's example."""
    opts = runopts()
    opts.add("run_as_user", type_=str, help="user to run the job as")
    opts.add("cluster_id", type_=int, help="cluster to submit the job", required=True)
    opts.add("priority", type_=float, default=0.5, help="job priority")
    opts.add("preemptible", type_=bool, default=False, help="is the job preemptible")
    return opts


def both(*options: dict[str, Any]) -> list[Any]:
    """The same options here and in TorchX."""
    made: list[Any] = []
    for side in (ours, theirs):
        opts = side("specs.api.runopts")()
        for option in options:
            opts.add(**option)
        made.append(opts)
    return made


def test_options_are_kept_in_order(usage: runopts) -> None:
    """They can be counted, and gone through as names and options."""
    assert len(usage) == 4
    assert [name for name, _ in usage] == ["run_as_user", "cluster_id", "priority", "preemptible"]
    assert dict(usage)["priority"] == specs.runopt(0.5, float, False, "job priority")


def test_one_option_can_be_had(usage: runopts) -> None:
    """Or None, where there is none of the name."""
    assert usage.get("cluster_id") == specs.runopt(None, int, True, "cluster to submit the job")
    assert usage.get("nothing") is None


ADD = [("cfg_key", MISSING), ("type_", MISSING), ("help", MISSING), ("default", None), ("required", False)]


def test_an_option_is_added_so() -> None:
    """By name or by position."""
    assert accepts(runopts.add, ADD)


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ({"cfg_key": "x", "type_": int, "help": "h", "default": 10, "required": True}, "ValueError"),
        ({"cfg_key": "x", "type_": str, "help": "h", "default": 10}, "TypeError"),
        ({"cfg_key": "x", "type_": int, "help": "h", "default": 0.5}, "TypeError"),
    ],
)
def test_what_cannot_be_added(option: dict[str, Any], error: str) -> None:
    """A default for a required option, or one of another type; the errors are also those of TorchX."""
    built_in = {"ValueError": ValueError, "TypeError": TypeError}[error]
    for opts in both():
        with pytest.raises(built_in):
            opts.add(**option)


def test_options_are_updated() -> None:
    """By those of other options."""
    for opts in both({"cfg_key": "a", "type_": str, "help": "h", "default": "1"}):
        other = type(opts)()
        other.add("a", type_=str, help="h", default="2")
        other.add("b", type_=int, help="h", default=3)
        opts.update(other)
        assert opts.resolve({}) == {"a": "2", "b": 3}


TYPES: list[Any] = [str, int, float, bool, List[str], Dict[str, str], list[str], dict[str, str]]  # noqa: UP006
VALUES: list[Any] = ["x", 1, 0.5, True, ["a"], [1], [], {"a": "b"}, {"a": 1}, {}]
IMPROVED: list[tuple[Any, Any]] = [
    (True, int),
    (1, float),
    ({"a": "b"}, list),
    ({}, list),
    ([], dict),
    (["a"], dict),
]
"""Where TorchX takes what is of another type, or not what is: see "argued improvements" on the page."""


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_type_of_a_value(value: Any, type_: Any) -> None:
    """As TorchX has it, but that a bool is no int, an int will do as a float, and a dict is no list."""
    kind = getattr(type_, "__origin__", type_)
    if any(value == v and type(value) is type(v) and kind is t for v, t in IMPROVED):
        assert runopts.is_type(value, type_) == (kind is float)
        return
    assert runopts.is_type(value, type_) == theirs("specs.api.runopts").is_type(value, type_)


@pytest.mark.parametrize(
    "cfg",
    [
        {"cluster_id": 1},
        {"cluster_id": 1, "run_as_user": "me", "priority": 1.5, "preemptible": True},
        {},
        {"cluster_id": None},
        {"cluster_id": "one"},
        {"cluster_id": 1, "preemptible": "yes"},
        {"cluster_id": 1, "unknown": 1},
    ],
    ids=str,
)
def test_options_are_resolved_as_by_torchx(cfg: dict[str, Any]) -> None:
    """Defaults are filled in; None is not given; what is missing, or of another type, is an error.

    The page lets an unknown option pass, as TorchX did then. The installed one refuses it, and so do we.
    """
    mine, other = both(
        {"cfg_key": "run_as_user", "type_": str, "help": "h"},
        {"cfg_key": "cluster_id", "type_": int, "help": "h", "required": True},
        {"cfg_key": "priority", "type_": float, "help": "h", "default": 0.5},
        {"cfg_key": "preemptible", "type_": bool, "help": "h", "default": False},
    )

    def resolved(opts: Any, errors: Any) -> Any:
        try:
            return opts.resolve(cfg)
        except errors.InvalidRunConfigException as err:
            return err.cfg_key

    assert resolved(mine, ours("specs.api")) == resolved(other, theirs("specs.api"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "UNKNOWN=VALUE",
        "FOO=v1",
        "FOO=v1,v2",
        "FOO=v1;v2",
        "FOO=v1,v2,BAR=v3",
        "FOO=v1;v2,BAR=v3",
        "FOO=v1;v2;BAR=v3",
        "FOO=v1,v2,",
        "FLAG=true",
        "FLAG=True",
        "FLAG=false",
        "COUNT=3",
        "RATE=0.5",
        "MAP=a:b,c:d",
        "MAP=a:b:c",
        "COUNT=three",
        "FOO",
    ],
)
def test_a_text_is_read_as_by_torchx(text: str) -> None:
    """Separators, types, lists and dicts; nothing is required and no default filled in.

    The page leaves out an unknown option, as TorchX did then. The installed one refuses it, and so do we.
    """
    mine, other = both(
        {"cfg_key": "FOO", "type_": List[str], "help": "h", "default": ["a"]},  # noqa: UP006
        {"cfg_key": "BAR", "type_": str, "help": "h", "required": True},
        {"cfg_key": "FLAG", "type_": bool, "help": "h"},
        {"cfg_key": "COUNT", "type_": int, "help": "h"},
        {"cfg_key": "RATE", "type_": float, "help": "h"},
        {"cfg_key": "MAP", "type_": Dict[str, str], "help": "h"},  # noqa: UP006
    )
    expected = told(other.cfg_from_str, text)
    failed = isinstance(expected, str)
    assert isinstance(told(mine.cfg_from_str, text), str) if failed else mine.cfg_from_str(text) == expected


def test_none_is_not_given(usage: runopts) -> None:
    """So the default counts, as the page has it; the installed TorchX lets the None stand."""
    assert usage.resolve({"cluster_id": 1, "priority": None})["priority"] == 0.5


def test_an_unknown_option_can_be_let_pass() -> None:
    """By the one who asks for it, here and in TorchX."""
    for opts in both({"cfg_key": "a", "type_": str, "help": "h"}):
        assert opts.resolve({"a": "1", "b": "2"}, ignore_unknown=True) == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    "line",
    [
        "usage:",
        "cluster_id=CLUSTER_ID,[run_as_user=RUN_AS_USER],[priority=PRIORITY],[preemptible=PREEMPTIBLE]",
        "required arguments:",
        "cluster_id=CLUSTER_ID (int)",
        "cluster to submit the job",
        "optional arguments:",
        "run_as_user=RUN_AS_USER (str, None)",
        "priority=PRIORITY (float, 0.5)",
        "preemptible=PREEMPTIBLE (bool, False)",
    ],
)
def test_options_explain_themselves(usage: runopts, line: str) -> None:
    """Required ones first; each with its type, its default and its help, as TorchX writes it."""
    assert line in [each.strip() for each in repr(usage).splitlines()]
    (_, other) = both(
        {"cfg_key": "run_as_user", "type_": str, "help": "user to run the job as"},
        {"cfg_key": "cluster_id", "type_": int, "help": "cluster to submit the job", "required": True},
        {"cfg_key": "priority", "type_": float, "help": "job priority", "default": 0.5},
        {"cfg_key": "preemptible", "type_": bool, "help": "is the job preemptible", "default": False},
    )
    assert line in [each.strip() for each in repr(other).splitlines()]


@pytest.mark.parametrize("tp", [str, int, float, bool, Union[str, int]], ids=str)  # noqa: UP007
def test_a_type_has_a_name(tp: Any) -> None:
    """Of a class its own, otherwise how it is written."""
    assert specs.get_type_name(tp) == theirs("specs.api.get_type_name")(tp)
