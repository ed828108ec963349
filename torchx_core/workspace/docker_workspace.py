"""TorchX's path of workspaces that become a layer on the role's container image, by ``docker``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

from torchx_core.errors import InvalidRunConfigException, SchedulerError
from torchx_core.schedulers.workspaces import walk
from torchx_core.schedulers.workspaces.build_context import COPY_ALL, archive, has_recipe
from torchx_core.schedulers.workspaces.files import DOCKERFILE
from torchx_core.specs import AppDef, CfgVal, Role, Workspace, runopts
from torchx_core.workspace.api import WorkspaceMixin

__all__ = ["TORCHX_DOCKERFILE", "DockerWorkspaceMixin"]

TORCHX_DOCKERFILE: Final = DOCKERFILE
_LOCAL: Final = "sha256:"

_log = logging.getLogger(__name__)


class _NoRepositoryError(InvalidRunConfigException, KeyError):
    """An image was built that others must pull, and nothing says where it goes."""

    __str__ = InvalidRunConfigException.__str__


class DockerWorkspaceMixin(WorkspaceMixin[dict[str, tuple[str, str]]]):
    """Builds a workspace on a role's image, and pushes what it built to ``image_repo``.

    A ``Dockerfile.torchx`` in the workspace is the recipe (its argument ``IMAGE`` is the role's image), and
    else everything is copied. ``.dockerignore`` says what to leave out.
    """

    def __init__(self, *args: object, docker_client: Any | None = None, **kwargs: object) -> None:  # noqa: ANN401
        """Keep the client; without one, `docker.from_env` makes one when it is needed."""
        super().__init__(*args, **kwargs)
        self.__docker_client = docker_client  # a scheduler may have a client of its own, of any name

    @property
    def _docker_client(self) -> Any:  # noqa: ANN401  # the package may not be installed
        self.__docker_client = self.__docker_client or import_module("docker").from_env()
        return self.__docker_client

    def workspace_opts(self) -> runopts:
        """Return ``image_repo`` and ``quiet``."""
        opts = runopts()
        opts.add("image_repo", type_=str, help="repository that images are pushed to, without a tag")
        opts.add("quiet", type_=bool, default=False, help="keep the build's output out of the log")
        return opts

    def build_workspace_and_update_role(self, role: Role, workspace: str, cfg: Mapping[str, CfgVal]) -> None:
        """Build the image, and change the role's to its id.

        Raises:
            InvalidAppError: The workspace does not exist, or cannot be read.
            SchedulerError: A step of the recipe failed.
        """
        entries = list(walk(Workspace({workspace: ""}), ".dockerignore"))
        steps = self._docker_client.api.build(
            fileobj=archive(entries, {} if has_recipe(entries) else {TORCHX_DOCKERFILE: COPY_ALL}),
            custom_context=True,
            dockerfile=TORCHX_DOCKERFILE,
            buildargs={"IMAGE": role.image, "WORKSPACE": workspace},
            rm=True,
            forcerm=True,  # also after a step that failed
            decode=True,
        )
        image = error = ""
        for step in steps:
            line = str(step.get("stream", "")).strip()
            if line and not cfg.get("quiet"):
                _log.info("%s", line)
            image = step.get("aux", {}).get("ID", image)
            error = error or str(step.get("error", ""))
        if error or not image:
            what = f"cannot build the workspace of role {role.name!r} on image {role.image}"
            raise SchedulerError(f"{what}: {error or 'the engine named no image'}")
        role.image = image

    def dryrun_push_images(self, app: AppDef, cfg: Mapping[str, CfgVal]) -> dict[str, tuple[str, str]]:
        """Give each role whose image was built here the image's name in ``image_repo``.

        Returns:
            Id of a local image -> repository and tag.

        Raises:
            InvalidRunConfigException: There is such a role, and no ``image_repo``; also a `KeyError`.
        """
        images: dict[str, tuple[str, str]] = {}
        for role in app.roles:
            if role.image.startswith(_LOCAL):
                repo, tag = cfg.get("image_repo"), role.image.removeprefix(_LOCAL)
                if not repo:
                    problem = f"image_repo must say where to push {role.image} of role {role.name!r}"
                    raise _NoRepositoryError(problem, "image_repo", cfg)
                images[role.image] = str(repo), tag
                role.image = f"{repo}:{tag}"
        return images

    def push_images(self, images_to_push: dict[str, tuple[str, str]]) -> None:
        """Push the images; the engine must be logged in at the registry.

        Raises:
            SchedulerError: One cannot be pushed.
        """
        for image, (repo, tag) in images_to_push.items():
            self._docker_client.images.get(image).tag(repo, tag=tag)
            for step in self._docker_client.images.push(repo, tag=tag, stream=True, decode=True):
                if "error" in step:
                    raise SchedulerError(f"cannot push image {repo}:{tag}: {step['error']}")
