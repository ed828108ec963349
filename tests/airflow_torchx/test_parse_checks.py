from __future__ import annotations

import pytest

from airflow_torchx._parse_checks import check_app, check_target, has_template
from torchx_core.errors import InvalidAppError, UnknownSchedulerException
from torchx_core.launch import Cfg, make_app, to_document
from torchx_core.specs import InvalidRunConfigException


def _document(**role: object) -> dict[str, object]:
    return {"name": "a", "roles": [{"name": "r", "image": "", "entrypoint": "echo", **role}]}


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
