"""Images that were built from workspaces: directories that nobody runs in and nobody changes."""

from __future__ import annotations

import os
import time
from contextlib import suppress

from torchx_core.errors import InvalidAppError, SchedulerError, SubmitFailedError
from torchx_core.schedulers.local.images import LocalDirectoryImageProvider
from torchx_core.schedulers.paths import make_private
from torchx_core.schedulers.removing import fresh_path, move_aside, remove_tree, rename_unless_there
from torchx_core.schedulers.workspaces import Entry, copy_entries, digest, merged, walk, walk_directory
from torchx_core.specs import Role

__all__ = ["ImageStore"]

_IDLE_S = 3600.0


class ImageStore:
    """A directory of images, each named after its content.

    An app runs in a copy of its own (`copy_into`), so what one app writes into its working directory no other
    sees, and an image may be removed whatever runs.
    """

    def __init__(self, root: str) -> None:
        """Do no I/O."""
        self._root = root
        self._files: dict[str, frozenset[str]] = {}

    def holds(self, image: str) -> bool:
        """Return whether it is, or was, or can become, one of these images."""
        return os.path.dirname(image) == self._root

    def file_of(self, name: str) -> str:
        """Return the path of a file, which begins with the last part of its image's path."""
        return os.path.join(self._root, name)

    def has_file(self, name: str) -> bool:
        """Return whether an image has the file (see `file_of`), or will have it once it is built."""
        image, _, path = name.partition(os.sep)
        known = self._files.get(os.path.join(self._root, image), frozenset())
        return path in known or os.path.lexists(self.file_of(name))

    def name(self, role: Role) -> str:
        """Return the path of the image that the role's workspace laid over its image makes; build nothing.

        Raises:
            InvalidAppError: Image or workspace is wrong or cannot be read.
        """
        entries = self._entries(role)
        image = self._path(entries)
        self._files[image] = frozenset(path for path, _ in entries)
        return image

    def build(self, role: Role) -> str:
        """Make that image unless it is there; of two who make it at once, the first to finish wins.

        Raises:
            InvalidAppError: Image or workspace is wrong or cannot be read.
            SchedulerError: The disk is full, or a file changed while it was copied.
        """
        entries = self._entries(role)
        image = self._path(entries)
        if not _touch(image):
            fresh = fresh_path(self._root)
            try:
                make_private(self._root)
                copy_entries(entries, fresh)
                self._check(fresh, entries, image)
                rename_unless_there(fresh, image)
            except OSError as err:
                raise SchedulerError(f"cannot build image {image}: {err}", retryable=True) from err
            finally:
                remove_tree(fresh)
        return image

    def copy_into(self, image: str, target: str) -> None:
        """Copy the image to a new directory; the parent must exist.

        Raises:
            SubmitFailedError: The image is not there any more, or the disk is full.
        """
        if not _touch(image):
            raise SubmitFailedError(f"image {image} was pruned; build the workspace again")
        try:
            copy_entries(walk_directory(image), target)
        except (OSError, InvalidAppError) as err:
            raise SubmitFailedError(f"cannot copy image {image}: {err}", retryable=True) from err

    def prune(self, max_age_s: float | None) -> None:
        """Remove what was not used for that many seconds, or for an hour if that is longer."""
        oldest = time.time() - max(max_age_s or 0.0, _IDLE_S)
        with suppress(FileNotFoundError):
            for entry in os.scandir(self._root):
                with suppress(OSError):  # another removes it too
                    if entry.stat().st_mtime < oldest:
                        # aside first: what is copied meanwhile fails as a whole
                        remove_tree(move_aside(entry.path))

    def _entries(self, role: Role) -> list[Entry]:
        own = os.path.realpath(os.path.dirname(self._root))  # else an image would have all earlier ones in it
        base = walk_directory(LocalDirectoryImageProvider().fetch(role.image), own=own)
        return merged(base, walk(role.workspace, own=own) if role.workspace else [])

    def _path(self, entries: list[Entry]) -> str:
        return os.path.join(self._root, digest(entries))

    def _check(self, fresh: str, entries: list[Entry], image: str) -> None:
        if self._path([(path, os.path.join(fresh, path)) for path, _ in entries]) != image:
            raise SchedulerError("a file of the workspace changed while it was copied", retryable=True)


def _touch(image: str) -> bool:
    """Note that the image is used now; false when it is not there."""
    if not os.path.isdir(image):
        return False
    with suppress(OSError):  # pruned this moment: who copies it will see
        os.utime(image)
    return True
