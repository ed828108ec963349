"""Which files a workspace puts where in an image, which it leaves out, their digest, and a copy of them."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import TypeAlias

from torchx_core.errors import InvalidAppError
from torchx_core.specs import Workspace
from torchx_core.specs.workspace import place_below

__all__ = [
    "DOCKERFILE",
    "IGNORE_FILE",
    "Entry",
    "copy_entries",
    "digest",
    "merged",
    "reading",
    "walk",
    "walk_directory",
]

Entry: TypeAlias = tuple[str, str]
"""A path below the image's working directory, and what of this host belongs there: a directory (without what
is in it), a regular file or a symbolic link, as ``lstat`` sees it."""
IGNORE_FILE = ".torchxignore"
DOCKERFILE = "Dockerfile.torchx"
"""How an image is built, where a scheduler wants to know; never left out."""

_LEFT_OUT = frozenset({".git", "__pycache__"})  # they change although the program does not
_CHUNK = 1 << 30


def walk(workspace: Workspace, ignore_file: str = IGNORE_FILE, *, own: str = "") -> Iterator[Entry]:
    """Yield all that the workspace puts into an image, in the order of the paths.

    A directory comes before what is in it. Where projects meet, the later one wins. A symbolic link stays
    one, but for one to a file that is absolute or leads out of its project: it is that file. What is neither
    directory, file nor link is left out.

    Args:
        workspace: Its projects may be directories or single files.
        ignore_file: Name of a file in the top directory of a project that tells what of that project to leave
            out: a pattern (`fnmatch`) per line, ``#`` begins a comment, the last one that fits decides, ``!``
            brings back. ``.git`` and ``__pycache__`` are left out unless brought back.
        own: A directory that is never looked into, where the caller keeps what it builds: a project may be
            the home directory. Its real path.

    Raises:
        InvalidAppError: A project does not exist, cannot be read, or would lie outside of the image.
    """
    entries: dict[str, str] = {}
    for local, sub in workspace.projects.items():
        where = f"workspace.projects[{local!r}]"
        named, place = _on_this_host(local, where), place_below(sub, where)
        source = os.path.realpath(named)
        if os.path.isdir(source):
            patterns = read_patterns(os.path.join(source, ignore_file))
            inside = _walk(source, "", patterns, own)
            _lay(entries, _parents(place, source))
            _lay(entries, ((_join(place, path), found) for path, found in inside))
        else:
            into = not place or sub.endswith("/") or _is_directory(entries.get(place, ""))
            target = _join(place, os.path.basename(named)) if into else place
            _lay(entries, _parents(os.path.dirname(target), os.path.dirname(source)))
            _lay(entries, [(target, source)])
    yield from sorted(entries.items())


def walk_directory(directory: str, *, own: str = "") -> Iterator[Entry]:
    """Yield all that is in the directory, as `walk` does, but nothing else than `own` is left out.

    Raises:
        InvalidAppError: Something in it cannot be read.
    """
    return _walk(os.path.realpath(directory), "", None, own)


def merged(*layers: Iterable[Entry]) -> list[Entry]:
    """Return the layers laid over each other, in the order of the paths.

    The later one wins, as in a container image: a file takes the place of a directory with all that is in it,
    a directory that of a file; two directories become one.
    """
    entries: dict[str, str] = {}
    for layer in layers:
        _lay(entries, layer)
    return sorted(entries.items())


def _on_this_host(local: str, where: str) -> str:
    """Return the project's absolute path."""
    scheme, separator, rest = local.partition("://")
    if separator and scheme != "file":
        raise InvalidAppError(where, f"must be a path of this host, not {scheme}://")
    path = os.path.abspath(os.path.expanduser(rest if separator else local))
    if not os.path.exists(path):
        raise InvalidAppError(where, f"no such file or directory: {path!r}")
    return path


def _parents(place: str, source: str) -> Iterator[Entry]:
    """Yield the directories on the way to a project's place in the image; they look like its own."""
    steps = place.split("/") if place else []
    for n in range(len(steps)):
        yield "/".join(steps[: n + 1]), source


def _walk(top: str, folder: str, patterns: Sequence[str] | None, own: str) -> Iterator[Entry]:
    with reading(directory := os.path.join(top, folder)):
        names = sorted(os.listdir(directory))
    for name in names:
        path = _join(folder, name)
        below = None if patterns is None else patterns_below(path, patterns)
        if patterns is not None and below is None:
            continue
        with reading(source := os.path.join(top, path)):
            mode = os.lstat(source).st_mode
        if stat.S_ISLNK(mode):
            yield path, _file_elsewhere(source, top) or source
        elif stat.S_ISREG(mode):
            yield path, source
        elif stat.S_ISDIR(mode) and source != own:
            yield path, source
            yield from _walk(top, path, below, own)


def _file_elsewhere(link: str, top: str) -> str | None:
    """Return the file that the link leads to, if it does and the image would not have one there."""
    target = os.path.realpath(link)
    elsewhere = not target.startswith(os.path.join(top, "")) or os.path.isabs(os.readlink(link))
    return target if elsewhere and os.path.isfile(target) else None


def _lay(entries: dict[str, str], layer: Iterable[Entry]) -> None:
    for path, source in layer:
        if path in entries and _is_directory(entries[path]) and not _is_directory(source):
            for below in [p for p in entries if p.startswith(f"{path}/")]:
                del entries[below]
        entries[path] = source


def _is_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _join(place: str, path: str) -> str:
    return f"{place}/{path}" if place else path


@contextmanager
def reading(path: str) -> Generator[None]:
    """Turn an error of the file system into one of the app; the path names what is read.

    Raises:
        InvalidAppError: It cannot be read.
    """
    try:
        yield
    except OSError as err:
        raise InvalidAppError("workspace", f"cannot read {path!r}: {err.strerror or err}") from err


def read_patterns(path: str) -> list[str]:
    """Return the lines of an ignore file; none when there is no such file.

    Raises:
        InvalidAppError: It cannot be read.
    """
    if not os.path.isfile(path):
        return []
    with reading(path), open(path, encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.partition("#")[0].strip() for line in file]
    return [pattern for line in lines if (pattern := _plain(line))]


def patterns_below(path: str, patterns: Sequence[str]) -> Sequence[str] | None:
    """Return the patterns that count for what lies below the path, or None when the path is left out.

    The last pattern that fits decides. What a ``!`` brought back is judged only by the patterns after it, so
    that ``*`` and ``!src`` together mean "nothing but src, and all of it", as in TorchX.

    Args:
        path: Relative to the project.
        patterns: Those that count for the path itself.
    """
    if path == DOCKERFILE:
        return patterns
    left_out, last = os.path.basename(path) in _LEFT_OUT, -1
    for i, pattern in enumerate(patterns):
        if _fits(path, pattern.removeprefix("!")):
            left_out, last = not pattern.startswith("!"), i
    return None if left_out else patterns[last + 1 :]


def _plain(line: str) -> str:
    """Return the pattern without what means nothing here: ``./a/`` is ``a``."""
    mark = "!" if line.startswith("!") else ""
    pattern = line.removeprefix("!").strip().removeprefix("./").strip("/")
    return "" if pattern in ("", ".") else mark + pattern


def _fits(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern) or fnmatchcase(path, pattern.removeprefix("**/"))


def digest(entries: Iterable[Entry], *also: str) -> str:
    """Return 64 hexadecimal digits that follow from paths, kinds, permissions and contents, and nothing else.

    Where the entries come from, who owns them and when they were written do not count.

    Args:
        entries: In the order of the paths, as `walk` and `merged` give them.
        also: What else the image follows from, for example the name of the image beneath.

    Raises:
        InvalidAppError: An entry cannot be read.
    """
    import hashlib  # imported here: OpenSSL takes 3 ms to load

    total = hashlib.sha256(_framed(*also))
    for path, source in entries:
        with reading(source):
            total.update(_framed(path, *_described(source)))
    return total.hexdigest()


def _described(source: str) -> tuple[str, ...]:
    """Return kind, permissions and content."""
    import hashlib

    mode = os.lstat(source).st_mode
    if stat.S_ISLNK(mode):
        return "link", os.readlink(source)  # a link has no permissions of its own
    permissions = f"{stat.S_IMODE(mode):o}"
    if stat.S_ISDIR(mode):
        return "directory", permissions
    with open(source, "rb") as file:
        return "file", permissions, hashlib.file_digest(file, "sha256").hexdigest()


def _framed(*texts: str) -> bytes:
    """Return the texts with their number and lengths, so that no two lists of texts look the same."""
    parts = [os.fsencode(text) for text in texts]
    return b"%d;" % len(parts) + b"".join(b"%d:%b" % (len(part), part) for part in parts)


def copy_entries(entries: Iterable[Entry], target: str) -> None:
    """Make the target, a new directory, of the entries; the parent must exist.

    Nothing is linked to its source: who writes to one does not change the other.

    Raises:
        OSError: A source vanished, or the target cannot be written; what was copied stays.
    """
    os.mkdir(target, 0o700)
    folders: list[tuple[str, int]] = []
    for path, source in entries:
        place, mode = os.path.join(target, path), os.lstat(source).st_mode
        if stat.S_ISLNK(mode):
            os.symlink(os.readlink(source), place)
        elif stat.S_ISDIR(mode):
            os.mkdir(place, 0o700)
            folders.append((place, mode))
        else:
            _copy_file(source, place)
            os.chmod(place, stat.S_IMODE(mode))
    for place, mode in reversed(folders):  # only now: nothing can be put into a read-only directory
        os.chmod(place, stat.S_IMODE(mode))


def _copy_file(source: str, target: str) -> None:
    with open(source, "rb") as reader, open(target, "xb") as writer:
        with suppress(AttributeError, OSError):  # not on macOS, not between all file systems
            # shares the blocks until one side is written to, where the file system can
            while os.copy_file_range(reader.fileno(), writer.fileno(), _CHUNK):
                pass
        shutil.copyfileobj(reader, writer)  # goes on where that stopped
