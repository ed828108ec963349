"""What a workspace puts into an image: shared by all schedulers that build images."""

from torchx_core.schedulers.workspaces.content import digest
from torchx_core.schedulers.workspaces.files import Entry, merged, walk, walk_directory
from torchx_core.schedulers.workspaces.ignore import IGNORE_FILE

__all__ = ["IGNORE_FILE", "Entry", "digest", "merged", "walk", "walk_directory"]
