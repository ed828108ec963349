"""Local files that belong into a role's image at submit time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torchx_core.errors import InvalidAppError
from torchx_core.specs.checks import is_list, is_map

if TYPE_CHECKING:
    from pathlib import Path  # 8 ms: only `merge_into` needs it

__all__ = ["Workspace", "place_below"]


@dataclass
class Workspace:
    """Projects on this host, each with the directory inside the image that it goes to.

    True when it has projects; equal by content and hashable, so that a build can be cached by it (do not
    change it while it is a key).

    Args:
        projects: Local file or directory -> sub-directory below the image's working directory, ``""`` for
            that directory itself.
    """

    projects: dict[str, str]

    def __bool__(self) -> bool:
        """Return whether there is any project."""
        return bool(self.projects)

    def __hash__(self) -> int:
        """Hash by content."""
        return hash(frozenset(self.projects.items()))

    def __str__(self) -> str:
        """Return ``local:sub;local`` for logs; `from_str` does not read it back."""
        return ";".join(f"{local}:{sub}" if sub else local for local, sub in self.projects.items())

    def is_unmapped_single_project(self) -> bool:
        """Return whether it is one project that goes to the working directory itself."""
        return list(self.projects.values()) == [""]

    @staticmethod
    def from_str(workspace: str | None) -> Workspace:
        """Read a path, or a YAML map of local path to sub-directory; empty or None is no workspace.

        Raises:
            InvalidAppError: It is a list, broken YAML, or a map with something other than strings.

        Example:
            >>> Workspace.from_str("/home/me/project")
            Workspace(projects={'/home/me/project': ''})
        """
        if not workspace:
            return Workspace({})
        loaded = _load(workspace)
        if is_map(loaded):
            entries = {local: "" if sub is None else sub for local, sub in loaded.items()}
            return Workspace({_text(k, workspace): _text(v, workspace) for k, v in entries.items()})
        if is_list(loaded):
            raise _invalid(workspace, "a list")
        # YAML reads "~" as null and "2024" as a number; both are paths here
        return Workspace({loaded if isinstance(loaded, str) else workspace: ""})

    def merge_into(self, outdir: str | os.PathLike[str]) -> None:
        """Copy every project to its place below ``outdir``, later ones over earlier ones.

        Raises:
            InvalidAppError: A project does not exist, or would be written outside ``outdir``.
        """
        from pathlib import Path

        for local, sub in self.projects.items():
            where = f"workspace.projects[{local!r}]"
            source = Path(local).expanduser()
            if not source.exists():
                raise InvalidAppError(where, f"no such file or directory: {str(source)!r}")
            _copy(source, Path(outdir) / place_below(sub, where))


def place_below(sub: str, where: str) -> str:
    """Return the sub-directory without detours, ``""`` for the working directory itself.

    Raises:
        InvalidAppError: It leads out of the working directory.
    """
    relative = os.path.normpath(sub)
    if relative.startswith("/") or f"{relative}/".startswith("../"):
        raise InvalidAppError(where, f"must stay inside the workspace: {sub!r}")
    return "" if relative == "." else relative


def _load(text: str) -> object:
    import yaml  # imported here: only this call needs it

    try:
        loaded: object = yaml.safe_load(text)
    except yaml.YAMLError as err:
        raise _invalid(text, f"not YAML ({err})") from err
    return loaded


def _text(value: object, workspace: str) -> str:
    if not isinstance(value, str):
        raise _invalid(workspace, f"{value!r} ({type(value).__name__}) where a string belongs")
    return value


def _invalid(text: str, found: str) -> InvalidAppError:
    return InvalidAppError(
        "workspace", f"expected a path or a map of local path to sub-directory: {text!r} is {found}"
    )


def _copy(source: Path, target: Path) -> None:
    import shutil  # imported here: it loads the compression modules

    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True, ignore_dangling_symlinks=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)
