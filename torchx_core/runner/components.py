"""The part of the runner that runs components by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from torchx_core.specs import AppDef, AppDryRunInfo, AppHandle, CfgVal, Workspace

__all__ = ["RunsComponents"]


class RunsComponents(ABC):
    """Finds a component, builds its app, and hands that to what runs apps."""

    component_defaults: Mapping[str, Mapping[str, str]]
    """Component name -> argument -> text, for arguments that a call does not give."""

    @abstractmethod
    def dryrun(
        self,
        app: AppDef,
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: Workspace | str | None = None,
        parent_run_id: str | None = None,
        *,
        app_id: str | None = None,
    ) -> AppDryRunInfo[object]:
        """Return the request that would be submitted for the app."""

    @abstractmethod
    def schedule(self, dryrun_info: AppDryRunInfo[object]) -> AppHandle:
        """Submit the request."""

    def dryrun_component(
        self,
        component: str,
        component_args: Sequence[str] | Mapping[str, object],
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: Workspace | str | None = None,
        parent_run_id: str | None = None,
        *,
        app_id: str | None = None,
    ) -> AppDryRunInfo[object]:
        """Return the request that `run_component` would submit; submit nothing.

        A component that is not built in runs code: see `torchx_core.components.find_component`.

        Args:
            component: Name, ``FILE.py:FUNCTION`` or ``package.module.function``.
            component_args: Words as on a command line, or argument -> value.
            scheduler: As for `dryrun`, like all that follow.
            cfg: The same.
            workspace: The same.
            parent_run_id: The same.
            app_id: The same.

        Raises:
            ComponentNotFoundException: There is no such component.
            ComponentValidationException: It cannot be used as it is written.
            ComponentArgumentError: The arguments do not fit it.
        """
        from torchx_core.components import find_component  # imported here: who passes apps does not need it

        found = find_component(component)
        app = found.build(component_args, self.component_defaults.get(component))
        return self.dryrun(app, scheduler, cfg, workspace, parent_run_id, app_id=app_id)

    def run_component(
        self,
        component: str,
        component_args: Sequence[str] | Mapping[str, object],
        scheduler: str,
        cfg: Mapping[str, CfgVal] | None = None,
        workspace: Workspace | str | None = None,
        parent_run_id: str | None = None,
        *,
        app_id: str | None = None,
    ) -> AppHandle:
        """Run the component's app and return its handle: `dryrun_component`, then `schedule`."""
        return self.schedule(
            self.dryrun_component(
                component, component_args, scheduler, cfg, workspace, parent_run_id, app_id=app_id
            )
        )
