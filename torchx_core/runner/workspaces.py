"""Builds workspaces into images, before a request is submitted or once for many requests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import cast, overload

from torchx_core.errors import InvalidInputError
from torchx_core.schedulers import Scheduler
from torchx_core.specs import AppDef, AppDryRunInfo, CfgVal, Role, Workspace, snapshot_app

__all__ = ["BuildsWorkspaces", "build_for", "override_workspace", "pin_workspace_images"]


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
        images = _build_each(backend, roles, backend.run_opts().resolve(cfg or {})) if can_build else {}
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


def override_workspace(app: AppDef, workspace: Workspace | str | None) -> None:
    """Give the first role the workspace, if there is one; TorchX's old way, before roles had their own."""
    chosen = Workspace.from_str(workspace) if isinstance(workspace, str) else workspace
    if chosen and app.roles:
        app.roles[0].workspace = Workspace(dict(chosen.projects))  # ours, also where TorchX's was given


def build_for(scheduler: Scheduler[object], dryrun_info: AppDryRunInfo[object]) -> None:
    """Build what the request needs.

    Raises:
        InvalidInputError: A workspace is not what it was in the dry run.
    """
    images = _build_each(scheduler, dryrun_info.builds, dryrun_info.cfg)
    for role in dryrun_info.builds:
        if role.workspace and dryrun_info.app and role.name in dryrun_info.app:
            shown, built = dryrun_info.app[role.name].image, images[role.image, role.workspace]
            if built != shown:
                raise InvalidInputError(
                    f"the workspace of role {role.name!r} changed since the dry run: it makes {built},"
                    f" not {shown}; make a new dry run"
                )


def _build_each(
    scheduler: Scheduler[object], roles: Iterable[Role], cfg: Mapping[str, CfgVal]
) -> dict[tuple[str, Workspace], str]:
    """Build each different pair of image and workspace once; return the built images by that pair."""
    images: dict[tuple[str, Workspace], str] = {}
    for role in roles:
        if role.workspace and (role.image, role.workspace) not in images:
            images[role.image, role.workspace] = scheduler.build_workspace(role, cfg)
    return images
