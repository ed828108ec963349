"""The scheduler whose images are directories: `local_dir`."""

from __future__ import annotations

import builtins
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from torchx_core.schedulers import Capabilities
from torchx_core.schedulers.local.image_store import ImageStore
from torchx_core.schedulers.local.images import ImageProvider, LocalDirectoryImageProvider
from torchx_core.schedulers.local.request import LocalRequest
from torchx_core.schedulers.local.scheduler import LocalScheduler
from torchx_core.specs import CfgVal, Role

__all__ = ["LocalDirScheduler"]


class LocalDirScheduler(LocalScheduler):
    """Runs replicas in the directory that is their role's image.

    A workspace laid over such a directory makes an image in the state directory. The app gets a copy of its
    own in its record, to be written to like the file system of a container, and removed with the record.
    """

    capabilities: ClassVar[Capabilities] = replace(LocalScheduler.capabilities, workspaces=True)

    def __init__(
        self,
        session_name: str,
        extra_paths: Sequence[str] | None = None,
        *,
        state_dir: str | None = None,
        gpus: tuple[str, ...] | None = None,
    ) -> None:
        """Do no I/O; see `LocalScheduler`."""
        super().__init__(
            session_name,
            LocalDirectoryImageProvider,
            extra_paths=extra_paths,
            backend="local_dir",
            state_dir=state_dir,
            gpus=gpus,
        )
        self._store = ImageStore(os.path.join(self._root, self.backend, ".images"))  # no session's name

    def workspace_image(self, role: Role, cfg: Mapping[str, CfgVal]) -> str:  # noqa: ARG002  # no option matters
        """Return the path of the directory that `build_workspace` makes."""
        return self._store.name(role)

    def build_workspace(self, role: Role, cfg: Mapping[str, CfgVal]) -> str:  # noqa: ARG002  # no option matters
        """Make the directory unless it is there."""
        return self._store.build(role)

    def prune(
        self, *, max_age_s: float | None = None, max_count: int | None = None, max_bytes: int | None = None
    ) -> builtins.list[str]:
        """Delete terminal apps, and images that nobody used lately; apps have copies and miss nothing."""
        self._store.prune(max_age_s)
        return super().prune(max_age_s=max_age_s, max_count=max_count, max_bytes=max_bytes)

    def _images_for(self, app_dir: str, cfg: Mapping[str, CfgVal]) -> ImageProvider:  # noqa: ARG002  # the same
        return _ImagesOfApp(self._store, app_dir)

    def _furnish(self, request: LocalRequest, directory: str) -> None:
        built = {role.image for role in request.app.roles if self._store.holds(role.image)}
        for image in sorted(built):
            place = _copy_of(image, directory)
            os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
            self._store.copy_into(image, place)


class _ImagesOfApp(LocalDirectoryImageProvider):
    """What images mean to one app: a built one is the app's own copy."""

    def __init__(self, store: ImageStore, app_dir: str) -> None:
        self._store = store
        self._app_dir = app_dir

    def fetch(self, image: str) -> str:
        return _copy_of(image, self._app_dir) if self._store.holds(image) else super().fetch(image)

    def _holds(self, path: str) -> bool:
        copies = _copy_of("", self._app_dir)
        inside = path.startswith(copies)
        return self._store.has_file(path.removeprefix(copies)) if inside else super()._holds(path)

    def before_copying(self, path: str) -> str:
        copies = _copy_of("", self._app_dir)
        return self._store.file_of(path.removeprefix(copies)) if path.startswith(copies) else path


def _copy_of(image: str, app_dir: str) -> str:
    return os.path.join(app_dir, "image", os.path.basename(image))
