"""Image providers: what a role's image means on this host."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from torchx_core.errors import InvalidAppError, InvalidInputError
from torchx_core.specs import Role

__all__ = ["CWDImageProvider", "ImageProvider", "LocalDirectoryImageProvider"]


class ImageProvider(ABC):
    """Turns an image name into a directory; called once per role by every dry run."""

    @abstractmethod
    def fetch(self, image: str) -> str:
        """Return the image's root directory.

        Raises:
            InvalidAppError: There is no such image.
        """

    def fetch_role(self, role: Role) -> str:
        """Return the root directory of the role's image; may change the role."""
        return self.fetch(role.image)

    def cwd(self, img_root: str) -> str:
        """Return the directory in which replicas start: by default, the image's."""
        return img_root

    @abstractmethod
    def entrypoint(self, img_root: str, role: Role) -> str:
        """Return what to execute."""


class CWDImageProvider(ImageProvider):
    """Ignores the image: everything happens in the submitter's working directory (``local_cwd``)."""

    def fetch(self, image: str) -> str:  # noqa: ARG002  # that is the idea
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

    def entrypoint(self, img_root: str, role: Role) -> str:  # noqa: ARG002  # a provider may need it
        """Return the entrypoint as it is: a path, or a name to find in PATH."""
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

    def entrypoint(self, img_root: str, role: Role) -> str:
        """Return the entrypoint; a relative one lies in the image."""
        return os.path.join(img_root, role.entrypoint)
