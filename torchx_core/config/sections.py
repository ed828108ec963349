"""Which sections a file may have, and the options of those that belong to no scheduler or component."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from typing import Final

from torchx_core.compat import PREFIX
from torchx_core.config.settings import Section
from torchx_core.errors import did_you_mean
from torchx_core.specs import split_place

__all__ = ["CLI_RUN", "TORCHX_SCHEDULERS", "check_section", "sections_of"]

CLI_RUN: Final = "cli:run"
_OPTIONS: Final = {
    CLI_RUN: ("scheduler", "component", "workspace"),
    "cli:list": ("scheduler",),
    "tracker:<name>": ("config",),
}
_FORMS: Final = ("component:<name>", "torchx:tracker", *_OPTIONS)
_NAMELESS: Final = ("component:", "tracker:")
"""Belong to nothing, and are left alone, as in TorchX."""

TORCHX_SCHEDULERS: Final = frozenset(
    {
        "aws_batch",
        "aws_sagemaker",
        "gcp_batch",
        "kubernetes",
        "kubernetes_mcad",
        "local",
        "local_cwd",
        "local_dir",
        "local_docker",
        "lsf",
        "ray",
        "slurm",
    }
)
"""TorchX's own, now or in its past: a file that is shared with TorchX may have sections for them."""


def check_section(section: Section, schedulers: Iterable[str]) -> None:
    """Refuse a section whose name is a slip of the pen, or an option in it that nothing reads.

    What belongs to another program, or to a scheduler that is not installed, is ignored, with a warning in
    the log: several may share a file. The options of a scheduler or a component are not looked at: only those
    who run it know them.

    Args:
        section: What was read.
        schedulers: The known ones; looked through for an unusual name only.

    Raises:
        InvalidConfigError: With what is allowed, and the closest of it.
    """
    if section.name == "DEFAULT":
        raise section.origin.error(
            "[DEFAULT] adds nothing to other sections here; write its options into them"
        )
    form = _form(section.name)
    if form in _NAMELESS:
        return
    if form in _OPTIONS:
        _check_options(section, _OPTIONS[form])
    elif form not in _FORMS and split_place(form.removeprefix(PREFIX))[0] not in TORCHX_SCHEDULERS:
        _check_scheduler(section, list(schedulers))


def sections_of(scheduler: str, schedulers: Container[str]) -> list[str]:
    """Return the sections with options of a scheduler, the strongest first.

    Those of ``torchx:kubernetes`` may stand in ``[kubernetes]``, where TorchX has them, unless this package
    has a scheduler of that name. Those of ``local_cwd@gpu-box`` may stand in ``[local_cwd]``.

    Args:
        scheduler: Its name.
        schedulers: The known ones.
    """
    name, place = split_place(scheduler)
    if place is not None:
        return [scheduler, name]
    name = scheduler.removeprefix(PREFIX)
    return [scheduler] if name == scheduler or name in schedulers else [scheduler, name]


def _form(section: str) -> str:
    kind, _, name = section.partition(":")
    return f"{kind}:<name>" if name and kind in ("component", "tracker") else section


def _check_scheduler(section: Section, schedulers: Collection[str]) -> None:
    if section.name not in schedulers and PREFIX + section.name not in schedulers:
        known = [*_FORMS, *schedulers]
        hint = did_you_mean(section.name, known)
        error = section.origin.error(
            f"unknown section [{section.name}]; known: {', '.join(known)}{hint};"
            " a scheduler is known once the package that offers it is installed"
        )
        if hint and not section.name.startswith("cli:"):  # TorchX has one for each of its commands
            raise error
        import logging  # here: who has only known sections does not pay for it

        logging.getLogger(__name__).warning("ignored: %s", error)


def _check_options(section: Section, known: Collection[str]) -> None:
    for name, setting in section.settings.items():
        if name not in known:
            raise setting.origin.error(
                f"unknown option {name!r} in [{section.name}]; known: {', '.join(known)}"
                + did_you_mean(name, known)
            )
