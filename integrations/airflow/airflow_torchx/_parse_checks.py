"""What an operator is asked to run, checked when the DAG is parsed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torchx_core.errors import InvalidAppError
from torchx_core.launch import (
    AppDocument,
    Cfg,
    ComponentArgs,
    Target,
    make_app,
    make_component,
    target_options,
)
from torchx_core.launch import check_target as check_target_now

__all__ = ["check_app", "check_component", "check_target", "has_template"]

_TEMPLATE_MARKS = ("{{", "{%", "{#")


def check_target(scheduler: str, cfg: Cfg, workspace: str | None = None) -> None:
    """Find at DAG parse what can be found before templates are rendered.

    Raises:
        UnknownSchedulerException: There is no such scheduler.
        InvalidRunConfigException: The options do not fit the scheduler.
        InvalidInputError: The scheduler cannot build a workspace.
    """
    if has_template(scheduler):
        return
    if has_template(cfg):
        target_options(scheduler, workspace)
    else:
        check_target_now(Target(scheduler=scheduler, cfgs=(cfg,)), workspace)


def check_app(document: AppDocument, given: object) -> None:
    """Do the same for the app.

    Raises:
        InvalidAppError: The app is wrong.
    """
    if isinstance(document, str) and has_template(document):
        return
    try:
        make_app(document, given)
    except InvalidAppError as err:
        # A message shows the wrong value. Where that is a template, the rendered value may be right.
        if not (has_template(document) and has_template(err.problem)):
            raise


def check_component(name: str, args: ComponentArgs) -> None:
    """Do the same for a component: find it, and try arguments in which there is no template.

    Raises:
        ComponentNotFoundException: There is none of that name.
        ComponentValidationException: It cannot be used as it is written.
        ComponentArgumentError: The arguments do not fit it.
        InvalidAppError: It makes a wrong app.
    """
    from torchx_core.components import find_component  # imported here: a DAG with apps need not pay for it

    if has_template(name):
        return
    if has_template(args):
        find_component(name)
    else:
        make_component(name, args)


def has_template(value: object) -> bool:
    """Return whether a text somewhere in the value is a template, or something in it is no plain value."""
    if isinstance(value, str):
        return any(mark in value for mark in _TEMPLATE_MARKS)
    if isinstance(value, Mapping):
        return any(has_template(item) for item in value.values())
    if isinstance(value, Sequence):
        return any(has_template(item) for item in value)
    return not (value is None or isinstance(value, int | float))
