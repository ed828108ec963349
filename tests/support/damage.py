"""What can happen to a file of an app, and what verbs must make of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias, cast

from torchx_core import Runner
from torchx_core.errors import TorchXError
from torchx_core.schedulers import Batch

Damage: TypeAlias = Callable[[Path, bytes], None]

_TOO_MUCH: Final = 3 << 30


def _truncated(part: float) -> Damage:
    return lambda path, data: _write(path, data[: int(len(data) * part)])


def _flipped(first: int, step: int) -> Damage:
    def damage(path: Path, data: bytes) -> None:
        changed = bytearray(data)
        for at in range(first, len(changed), step):
            changed[at] ^= 1 << (at % 8)
        _write(path, bytes(changed))

    return damage


def _without(number: int) -> Damage:
    """Leave out one key of each object, the outermost and all in it."""

    def damage(path: Path, data: bytes) -> None:
        _write(path, b"".join(json.dumps(_less(v, number)).encode() + b"\n" for v in _values(data)))

    return damage


def _less(value: object, number: int) -> object:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        gone = sorted(fields)[number % len(fields)] if fields else ""
        return {name: _less(inner, number) for name, inner in fields.items() if name != gone}
    if isinstance(value, list):
        return [_less(inner, number) for inner in cast("list[object]", value)]
    return value


def _with(wrong: object, *, depth: int) -> Damage:
    """Put a wrong value in the place of everything that lies so deep."""

    def damage(path: Path, data: bytes) -> None:
        _write(path, b"".join(json.dumps(_wrong(v, wrong, depth)).encode() + b"\n" for v in _values(data)))

    return damage


def _wrong(value: object, wrong: object, depth: int) -> object:
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        if depth == 0:
            return {name: inner if name == "version" else wrong for name, inner in fields.items()}
        return {name: _wrong(inner, wrong, depth - 1) for name, inner in fields.items()}
    if isinstance(value, list):
        return [_wrong(inner, wrong, depth) for inner in cast("list[object]", value)]
    return value


def _values(data: bytes) -> Iterator[object]:
    for line in data.splitlines() or [b"{}"]:
        try:
            yield cast("object", json.loads(line))
        except ValueError:
            yield {}


def _newer(path: Path, data: bytes) -> None:
    _write(path, b"\n".join(json.dumps({**_object(v), "version": 99}).encode() for v in _values(data)))


def _object(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _huge(path: Path, data: bytes) -> None:
    _write(path, data)
    os.truncate(path, _TOO_MUCH)


def _full_directory(path: Path) -> None:
    path.mkdir()
    (path / "x").touch()


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


DAMAGES: Final[Mapping[str, Damage]] = {
    "gone": lambda _path, _data: None,
    "empty": lambda path, _data: path.touch(),
    "cut after a quarter": _truncated(0.25),
    "cut in the middle": _truncated(0.5),
    "cut near the end": _truncated(0.95),
    "one bit flipped": _flipped(20, 1 << 30),
    "a few bits flipped": _flipped(7, 97),
    "many bits flipped": _flipped(0, 5),
    "zeros": lambda path, data: _write(path, bytes(len(data))),
    "not text": lambda path, data: _write(path, b"\xff\xfe\xfa" * (len(data) // 3 + 1)),
    "nested deeply": lambda path, _data: _write(path, b'{"a":' * 100_000 + b"\n"),
    "nested in whole": lambda path, _data: _write(
        path, b'{"version": 1, "a":' + b"[" * 900 + b"]" * 900 + b"}"
    ),
    "other JSON": lambda path, _data: _write(path, b"[1]\n"),
    "first keys missing": _without(0),
    "other keys missing": _without(1),
    "third keys missing": _without(2),
    "texts instead": _with("x", depth=0),
    "texts within": _with("x", depth=1),
    "numbers within": _with(1e300, depth=1),
    "nothing within": _with(None, depth=2),
    "lists within": _with([[]], depth=2),
    "large numbers": _with(10**30, depth=2),
    "newer": _newer,
    "huge": _huge,
    "directory": lambda path, _data: path.mkdir(),
    "directory with a file": lambda path, _data: _full_directory(path),
    "link in a circle": lambda path, _data: path.symlink_to(path),
    "dangling link": lambda path, _data: path.symlink_to("/nowhere/at/all"),
    "link to a device": lambda path, _data: path.symlink_to("/dev/zero"),
    "FIFO": lambda path, _data: os.mkfifo(path),
}


def apply(path: Path, damage: str) -> None:
    """Do that to the file."""
    data = path.read_bytes() if path.is_file() else b""
    remove(path)
    DAMAGES[damage](path, data)


TEXT_DAMAGES: Final = tuple(
    damage
    for damage in DAMAGES
    if not any(word in damage for word in ("gone", "huge", "directory", "link", "FIFO", "not text"))
)
"""Those of text that is no file."""


def damaged(text: str, damage: str, scratch: Path) -> str:
    """Return what becomes of the text."""
    scratch.write_text(text)
    apply(scratch, damage)
    return scratch.read_bytes().decode(errors="replace")


def remove(path: Path) -> None:
    """Remove whatever is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def copy(source: Path, target: Path) -> None:
    """Make the target what the source is, FIFOs and times included."""
    remove(target)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def files_of(app_dir: Path) -> list[str]:
    """Return the files of an app, each by its path in the app's directory."""
    found = (path for path in app_dir.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(str(path.relative_to(app_dir)) for path in found)


def verbs(runner: Runner, handle: str, role: str) -> Mapping[str, Callable[[], object]]:
    """Return what a user may do with an app, `delete` last: it is gone then."""
    scheduler = handle.partition("://")[0]
    return {
        "status": lambda: runner.status(handle),
        "describe": lambda: runner.describe(handle),
        "describe_native": lambda: runner.describe_native(handle),
        "follow": lambda: _some(runner.follow(handle, tick_s=0.01)),
        "follow without logs": lambda: _some(runner.follow(handle, tick_s=0.01, logs=False)),
        "log_lines": lambda: list(runner.log_lines(handle, role)),
        "wait": lambda: runner.wait(handle, timeout_s=0.05),
        "owner": lambda: runner.owner(handle),
        "take_over": lambda: runner.take_over(handle, "me", force=True),
        "prune": lambda: runner.prune(scheduler, max_age_s=1e9, max_bytes=1 << 60),
        "list": lambda: runner.list(scheduler),
        "cancel": lambda: runner.cancel(handle, grace_s=0),
        "delete": lambda: runner.delete(handle),
        "delete by force": lambda: runner.delete(handle, force=True),
    }


def _some(batches: Iterator[Batch]) -> list[Batch]:
    """Return batches up to the first empty one."""
    found: list[Batch] = []
    for batch in batches:
        if not batch.events:
            break
        found.append(batch)
    return found


def raw_errors(runner: Runner, handle: str, role: str, *, without: tuple[str, ...] = ()) -> list[str]:
    """Return what each verb raised that is no error of this library."""
    raw: list[str] = []
    for name, verb in verbs(runner, handle, role).items():
        if name in without:
            continue
        try:
            verb()
        except TorchXError:
            pass
        except Exception as err:  # noqa: BLE001  # that is what is looked for
            raw.append(f"{name}: {type(err).__name__}: {err}")
    return raw
