from __future__ import annotations

from dataclasses import dataclass

import pytest

from airflow_torchx._cfg import Cfg, make_cfg
from airflow_torchx._request import (
    AppRequest,
    check_app,
    check_target,
    has_template,
    make_app,
    to_document,
)
from airflow_torchx._target import Target
from torchx_core.errors import InvalidAppError, UnknownSchedulerException
from torchx_core.runner import get_runner
from torchx_core.specs import AppDef, InvalidRunConfigException, Role, runopts

APP = AppDef("a", [Role("r", image="", entrypoint="echo", args=["{{ ds }}"])])


def _document(**role: object) -> dict[str, object]:
    return {"name": "a", "roles": [{"name": "r", "image": "", "entrypoint": "echo", **role}]}


@pytest.mark.parametrize("app", [APP, APP.to_dict(), APP.to_yaml()], ids=["AppDef", "map", "YAML"])
def test_every_form_of_an_app_is_the_same_app(app: object) -> None:
    """An AppDef, its fields and its YAML all come out as the same app."""
    assert make_app(to_document(app), app) == APP


def test_an_app_becomes_plain_values() -> None:
    """Airflow renders and shows plain values only, so that is what it gets."""
    rendered = to_document(APP)
    assert isinstance(rendered, dict)
    assert rendered["roles"][0]["args"] == ["{{ ds }}"]


def test_yaml_that_templates_make_unreadable_stays_text() -> None:
    """An unquoted template may stand for a number, once it is rendered."""
    text = "{name: a, roles: [{name: r, image: '', entrypoint: echo, num_replicas: {{ n }}}]}"
    assert to_document(text) == text
    assert make_app(text.replace("{{ n }}", "3"), text).roles[0].num_replicas == 3


@dataclass
class Greedy(Role):
    """A role of the user's own class."""


def test_a_users_role_class_survives_rendering() -> None:
    """A document cannot hold code, so the role is made of its own class again."""
    given = AppDef("a", [Greedy("r", image="", entrypoint="echo", args=["{{ ds }}"])])
    rendered = to_document(given)
    assert isinstance(rendered, dict)
    rendered["roles"][0]["args"] = ["2026-01-01"]

    role = make_app(rendered, given).roles[0]

    assert isinstance(role, Greedy)
    assert (role.args, given.roles[0].args) == (["2026-01-01"], ["{{ ds }}"])


@pytest.mark.parametrize("app", [7, "just text", "[1, 2]", {"name": "a"}], ids=str)
def test_what_is_no_app_is_refused_at_parse(app: object) -> None:
    """A DAG with something else in the app's place does not import."""
    with pytest.raises(InvalidAppError):
        check_app(to_document(app), app)


def test_a_wrong_field_is_refused_although_another_is_a_template() -> None:
    """A template in one place does not hide a mistake in another."""
    wrong = _document(num_replicas="two", args=["{{ ds }}"])
    with pytest.raises(InvalidAppError, match=r"roles\[0\].num_replicas: must be an integer: 'two'"):
        check_app(wrong, wrong)


def test_a_templated_field_is_checked_when_it_is_rendered() -> None:
    """What a template will give cannot be wrong yet."""
    templated = _document(num_replicas="{{ params.n }}")
    check_app(templated, templated)
    with pytest.raises(InvalidAppError, match="num_replicas"):
        make_app(_document(num_replicas="two"), templated)


@pytest.mark.parametrize("cfg", [{"grace": 1}, "grace=1", {"grace_s": "soon"}, {"grace_s": [1]}], ids=str)
def test_wrong_options_are_refused_at_parse(cfg: Cfg) -> None:
    """An unknown option, or a value of the wrong type, does not wait for the task to run."""
    with pytest.raises(InvalidRunConfigException, match="grace"):
        check_target("local_cwd", cfg)


def test_an_unknown_scheduler_is_refused_at_parse() -> None:
    """With the name that was probably meant."""
    with pytest.raises(UnknownSchedulerException, match="did you mean 'local_cwd'"):
        check_target("local_cdw", None)


@pytest.mark.parametrize(
    ("scheduler", "cfg"),
    [("{{ params.s }}", None), ("local_cwd", {"grace_s": "{{ x }}"}), ("{{ s }}", "x=1")],
)
def test_templates_wait(scheduler: str, cfg: Cfg) -> None:
    """What depends on a template is not judged at parse."""
    check_target(scheduler, cfg)


@pytest.mark.parametrize(
    ("value", "has"),
    [
        ("{{ a }}", True),
        ("{% if a %}", True),
        ("${app_id}", False),
        ({"a": [1, ("{{ b }}",)]}, True),
        (None, False),
    ],
)
def test_templates_are_found(value: object, *, has: bool) -> None:
    """In any depth; a macro of the app is none."""
    assert has_template(value) is has


def test_something_that_airflow_resolves_counts_as_a_template() -> None:
    """A task's output, say, inside an option."""
    assert has_template([object()])


def _options() -> runopts:
    opts = runopts()
    opts.add("number", type_=float, help="")
    opts.add("text", type_=str, help="")
    opts.add("lease_s", type_=float, help="")
    return opts


def test_rendered_options_get_their_types() -> None:
    """A template gives a text; the scheduler gets the number it wants."""
    assert make_cfg({"number": "1.5", "text": "2"}, _options()) == {"number": 1.5, "text": "2"}


def test_lease_and_deadline_are_added_where_the_user_set_none() -> None:
    """The operator's defaults never replace what the user wrote."""
    with get_runner() as runner:
        some = Target(cfgs=("grace_s=1",))
        added = AppRequest.make(runner, APP, some, lease_s=60.0, deadline=9e9)
        own = Target(cfgs=({"lease_s": 5.0},))
        kept = AppRequest.make(runner, APP, own, lease_s=60.0, deadline=None)
    assert (added.lease_s, added.cfg["deadline"], added.cfg["grace_s"]) == (60.0, 9e9, 1.0)
    assert (kept.lease_s, kept.cfg["deadline"]) == (5.0, None)
