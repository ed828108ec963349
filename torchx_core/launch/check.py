"""What can be said about a target before anything is submitted there."""

from __future__ import annotations

from torchx_core.errors import InvalidInputError, SchedulerError
from torchx_core.launch.target import Target
from torchx_core.runner import get_runner
from torchx_core.specs import runopts

__all__ = ["check_target", "target_options"]


def check_target(target: Target, workspace: str | None = None) -> None:
    """Find out whether the target's scheduler takes its options; raises also as `target_options` does.

    Raises:
        InvalidRunConfigException: It does not.
    """
    options = target_options(target.scheduler, workspace)
    if options is not None:
        options.resolve(target.cfg(options))


def target_options(scheduler: str, workspace: str | None = None) -> runopts | None:
    """Return the scheduler's options; None where its client is not installed, as it may be where it runs.

    Raises:
        UnknownSchedulerException: There is no such scheduler.
        InvalidInputError: It cannot build the workspace.
    """
    with get_runner() as runner:
        try:
            backend = runner.scheduler(scheduler)
        except SchedulerError:
            return None
        if workspace and not backend.capabilities.workspaces:
            raise InvalidInputError(f"{scheduler} cannot build a workspace: {workspace!r}; leave it out")
        return backend.run_opts()
