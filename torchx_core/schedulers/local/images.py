"""Image providers: what a role's image means on this host."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from torchx_core.errors import InvalidAppError, InvalidInputError
from torchx_core.specs import CfgVal, Role

__all__ = ["CWDImageProvider", "ImageProvider", "LocalDirectoryImageProvider", "ReplicaParam"]


@dataclass
class ReplicaParam:
    """How one replica is started.

    Attributes:
        args: The program and its arguments.
        env: What is added to the submitter's environment; PATH is put before the submitter's.
        stdout: Where the first attempt's output lies; setting it has no effect.
        stderr: The same.
        combined: The same.
        cwd: Where the program starts; None for the submitter's working directory.
    """

    args: list[str]
    env: dict[str, str]
    stdout: str | None = None
    stderr: str | None = None
    combined: str | None = None
    cwd: str | None = None


class ImageProvider(ABC):
    """Turns an image name into a directory, and says how a program of it is started.

    Each dry run makes one. It calls `fetch_role` once per role, and `get_replica_param` for each replica.
    """

    def __init__(self, cfg: Mapping[str, CfgVal] | None = None) -> None:
        """Take the resolved run options; those here need none."""
        del cfg

    @abstractmethod
    def fetch(self, image: str) -> str:
        """Return the image's root directory.

        Raises:
            InvalidAppError: There is no such image.
        """

    def fetch_role(self, role: Role) -> str:
        """Return the root directory of the role's image; may change the role."""
        return self.fetch(role.image)

    def get_replica_param(
        self,
        img_root: str,
        role: Role,
        stdout: str | None = None,
        stderr: str | None = None,
        combined: str | None = None,
    ) -> ReplicaParam:
        """Return how a replica is started.

        Args:
            img_root: What `fetch_role` returned.
            role: Private to the replica, with its macros filled in, and with all that its environment gets.
            stdout: Where the first attempt's output will lie.
            stderr: The same.
            combined: The same.
        """
        args = [self.get_entrypoint(img_root, role), *role.args]
        return ReplicaParam(args, role.env, stdout, stderr, combined, self.get_cwd(role.image))

    def get_cwd(self, image: str) -> str | None:  # noqa: ARG002  # for those who override
        """Return the directory in which replicas start; None for the submitter's working directory."""
        return None

    def get_entrypoint(self, img_root: str, role: Role) -> str:
        """Return what to execute: by default, a file of the image."""
        return os.path.join(img_root, role.entrypoint)

    def before_copying(self, path: str) -> str:
        """Return where a file of the image lies while the app has no copy of the image yet."""
        return path


class CWDImageProvider(ImageProvider):
    """Ignores the image: everything happens in the submitter's working directory (``local_cwd``)."""

    def fetch(self, image: str) -> str:  # noqa: ARG002  # that is the idea
        """Return the working directory.

        Raises:
            InvalidInputError: It was removed under us.
        """
        return working_directory()

    def get_cwd(self, image: str) -> str:
        """Return the working directory; raises as `fetch` does."""
        return self.fetch(image)

    def get_entrypoint(self, img_root: str, role: Role) -> str:  # noqa: ARG002  # a provider may need it
        """Return the entrypoint as it is: a path, or a name for PATH or the working directory."""
        return role.entrypoint


class LocalDirectoryImageProvider(ImageProvider):
    """The image is an absolute path of a directory on this host (``local_dir``)."""

    def fetch(self, image: str) -> str:
        """Return the directory."""
        if not os.path.isabs(image):
            raise InvalidAppError("image", f"must be an absolute path of a directory: {image!r}")
        if not os.path.isdir(image):
            raise InvalidAppError("image", f"no such directory: {image!r}")
        return image

    def get_cwd(self, image: str) -> str:
        """Return the directory."""
        return self.fetch(image)

    def get_entrypoint(self, img_root: str, role: Role) -> str:
        """Return the file of the image; a name that is no file of it is one for PATH."""
        path = os.path.join(img_root, role.entrypoint)
        return path if os.sep in role.entrypoint or self._holds(path) else role.entrypoint

    def _holds(self, path: str) -> bool:
        return os.path.lexists(path)


def working_directory() -> str:
    """Return the working directory.

    Raises:
        InvalidInputError: It was removed under us.
    """
    try:
        return os.getcwd()
    except FileNotFoundError as err:
        raise InvalidInputError(
            "the working directory does not exist any more; change to one that does"
        ) from err
