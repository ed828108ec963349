"""Which files are read, and their text."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from torchx_core.config.settings import Origin
from torchx_core.errors import InvalidConfigError
from torchx_core.settings import ENV_TORCHXCONFIG

__all__ = ["CONFIG_FILE", "default_dirs", "find_configs", "read_config_text"]

CONFIG_FILE: Final = ".torchxconfig"


def find_configs(dirs: Iterable[str] | None = None, environ: Mapping[str, str] | None = None) -> list[str]:
    """Return the paths of the configuration files, the strongest first.

    Args:
        dirs: Where to look for ``.torchxconfig``; None or nothing for ``$HOME``, then the working directory.
        environ: Where ``TORCHXCONFIG`` is looked up; None for this process's environment. When it is set, it
            names the one file that is read, whatever ``dirs`` says; when it is set to nothing, none is read.

    Raises:
        InvalidConfigError: ``TORCHXCONFIG`` names no file.
    """
    env = os.environ if environ is None else environ
    named = env.get(ENV_TORCHXCONFIG)
    if named is None:
        return _existing(list(dirs or ()) or default_dirs(env))
    if named and not os.path.isfile(named):  # noqa: PTH113  (Path's raises in a folder that may not be searched)
        problem = f"no such file: {named!r}; unset it for the usual places, or set it to nothing to read none"
        raise Origin(source=f"${ENV_TORCHXCONFIG}").error(problem)
    return [named] if named else []


def default_dirs(environ: Mapping[str, str]) -> list[str]:
    """Return where files are looked for unless a caller says where: home, then the working directory."""
    return [environ.get("HOME") or os.path.expanduser("~"), os.curdir]  # noqa: PTH111  # Path's raises


def _existing(folders: Iterable[str]) -> list[str]:
    paths = [Path(folder) / CONFIG_FILE for folder in folders]
    found = [str(path.absolute()) for path in paths if _exists(path)]
    return list(dict.fromkeys(found))  # $HOME may be the working directory


def _exists(path: Path) -> bool:
    """Return whether there is such an entry; a link to nothing is one, and reading it will tell.

    A folder that may not be searched holds none that is meant for us: the home of another user, say.
    """
    try:
        path.lstat()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        return False
    return True


def read_config_text(path: str) -> str:
    """Return the text of the file.

    Raises:
        InvalidConfigError: It cannot be read, is no regular file, not UTF-8, or has a NUL.
    """
    content = _content(Path(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise _error_at(path, content, err.start, "not UTF-8; save the file in that encoding") from err
    if "\0" in text:
        raise _error_at(path, content, content.index(b"\0"), "a NUL byte; this is no text")
    return text


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():  # to open a FIFO would wait for a writer
            path.stat()
            raise Origin(source=str(path)).error("not a regular file; remove it, or write a file there")
        return path.read_bytes()
    except OSError as err:
        raise Origin(source=str(path)).error(f"cannot be read: {err.strerror}") from err


def _error_at(path: str, content: bytes, at: int, problem: str) -> InvalidConfigError:
    line = content.count(b"\n", 0, at) + 1
    return Origin(source=path, line=line).error(f"{problem}: byte {at} is {content[at : at + 1]!r}")
