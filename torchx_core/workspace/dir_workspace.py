"""TorchX's path of workspaces that are copied into a directory, which is the role's image then."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping

from torchx_core.errors import InvalidRunConfigException
from torchx_core.schedulers.ids import random_id
from torchx_core.schedulers.workspaces import copy_entries, walk
from torchx_core.specs import CfgVal, Role, Workspace
from torchx_core.workspace.api import WorkspaceMixin

__all__ = ["DirWorkspaceMixin", "TmpDirWorkspaceMixin"]


class TmpDirWorkspaceMixin(WorkspaceMixin[None]):
    """Copies a workspace into a temporary directory, which nobody removes."""

    def build_workspace_and_update_role(
        self,
        role: Role,
        workspace: str,
        cfg: Mapping[str, CfgVal],  # noqa: ARG002  # the interface's
    ) -> None:
        """Copy what ``.torchxignore`` does not leave out, and change the role's image to the directory.

        Raises:
            InvalidAppError: The workspace does not exist, or cannot be read.
        """
        role.image = f"{tempfile.gettempdir()}/torchx-workspace-{random_id()}"
        copy_entries(walk(Workspace({workspace: ""})), role.image)


class DirWorkspaceMixin(WorkspaceMixin[None]):
    """Copies a workspace into the directory that the option ``job_dir`` names; without it does nothing."""

    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        """Copy what ``.torchxignore`` does not leave out to a new directory, which is the role's image then.

        Raises:
            FileExistsError: There is such a directory.
            InvalidAppError: The workspace does not exist, or cannot be read.
            InvalidRunConfigException: ``job_dir`` is no text.
        """
        job_dir = cfg.get("job_dir")
        if job_dir is None:
            return
        if not isinstance(job_dir, str):
            raise InvalidRunConfigException(f"job_dir must be a path: {job_dir!r}", "job_dir", cfg)
        copy_entries(list(walk(Workspace({workspace: ""}))), job_dir)  # errors come before the directory
        role.image = job_dir
