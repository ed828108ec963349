"""Builds workspaces into images ahead of submits, once for many requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import cast, overload

from torchx_core.schedulers import Scheduler
from torchx_core.specs import AppDef, CfgVal, Role, Workspace, snapshot_app

__all__ = ["BuildsWorkspaces", "pin_workspace_images"]


class BuildsWorkspaces(ABC):
    """The part of the runner that builds images ahead of submits."""

    @abstractmethod
    def scheduler(self, backend: str, session: str | None = None) -> Scheduler[object]:
        """Return the scheduler of that name."""

    @overload
    def build_workspace(
        self, app_or_role: Role, scheduler: str, cfg: Mapping[str, CfgVal] | None = None
    ) -> str | None: ...
    @overload
    def build_workspace(
        self, app_or_role: AppDef, scheduler: str, cfg: Mapping[str, CfgVal] | None = None
    ) -> dict[tuple[str, Workspace], str]: ...
    def build_workspace(
        self, app_or_role: AppDef | Role, scheduler: str, cfg: Mapping[str, CfgVal] | None = None
    ) -> dict[tuple[str, Workspace], str] | str | None:
        """Build the workspaces now; `pin_workspace_images` then lets many submits share what was built.

        The app is not changed, and nothing but image and workspace is looked at.

        Returns:
            For an app, the built image for each pair of image and workspace; for a role, its built image or
            None. Nothing where there is no workspace or the scheduler cannot build any.

        Raises:
            InvalidAppError: A workspace or an image is wrong.
            InvalidRunConfigException: cfg does not fit the scheduler's options.
            SchedulerError: It could not be built.
        """
        backend = self.scheduler(scheduler)
        whole_app = hasattr(app_or_role, "roles")  # also one of TorchX
        roles = snapshot_app(app_or_role if whole_app else AppDef("build", [cast("Role", app_or_role)])).roles
        can_build = backend.capabilities.workspaces
        images = backend.build_workspaces(roles, backend.run_opts().resolve(cfg or {})) if can_build else {}
        return images if whole_app else next(iter(images.values()), None)


def pin_workspace_images(app: AppDef, images: Mapping[tuple[str, Workspace], str]) -> None:
    """Give each role the image that was built for it, so that submitting the app builds nothing.

    Changes the app: such a role's ``image`` is set and its ``workspace`` cleared. A role without a workspace,
    or whose pair of image and workspace is not among the keys, stays as it is.

    Args:
        app: The app.
        images: What `Runner.build_workspace` returned, for this app or another.
    """
    for role in app.roles:
        if role.workspace:
            # made ours: a workspace of TorchX's equals none of ours
            image = images.get((role.image, Workspace(dict(role.workspace.projects))))
            if image is not None:
                role.image, role.workspace = image, None
