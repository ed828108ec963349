"""What a workspace puts into an image: shared by all schedulers that build images."""

from torchx_core.schedulers.workspaces.files import (
    IGNORE_FILE,
    Entry,
    copy_entries,
    digest,
    merged,
    walk,
    walk_directory,
)

__all__ = ["IGNORE_FILE", "Entry", "copy_entries", "digest", "merged", "walk", "walk_directory"]
