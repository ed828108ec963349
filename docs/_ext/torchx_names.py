"""Every public name of the installed TorchX, with this package's beside it.

What is where is found by importing both. Why something differs, or is not here, is written in
``torchx_names.toml``: module -> name -> text, or ``{here = "torchx_core...", text = "..."}`` where our name
is elsewhere than under the same path.
"""

from __future__ import annotations

import ast
import inspect
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).with_suffix(".toml")
MODULES = (
    "torchx.specs",
    "torchx.specs.api",
    "torchx.specs.builders",
    "torchx.specs.capabilities",
    "torchx.specs.file_linter",
    "torchx.specs.finder",
    "torchx.specs.metadata_keys",
    "torchx.specs.named_resources_aws",
    "torchx.specs.named_resources_generic",
    "torchx.specs.overlays",
    "torchx.components.component_test_base",
    "torchx.components.dist",
    "torchx.components.structured_arg",
    "torchx.components.utils",
    "torchx.runner",
    "torchx.runner.Runner",
    "torchx.runner.config",
    "torchx.runner.events",
    "torchx.schedulers",
    "torchx.schedulers.api",
    "torchx.schedulers.devices",
    "torchx.schedulers.docker_scheduler",
    "torchx.schedulers.ids",
    "torchx.schedulers.local_scheduler",
    "torchx.schedulers.streams",
    "torchx.plugins",
    "torchx.settings",
    "torchx.tracker",
    "torchx.deprecations",
    "torchx.util.modules",
    "torchx.util.session",
    "torchx.util.strings",
    "torchx.util.types",
    "torchx.workspace",
    "torchx.workspace.api",
    "torchx.workspace.dir_workspace",
    "torchx.workspace.docker_workspace",
)
"""Of which there are tables; a class stands for its methods."""


class Row(NamedTuple):
    """One name of TorchX."""

    name: str
    here: str | None
    """Where it is in this package; None where it is not."""
    difference: str


class Written(NamedTuple):
    """What the data file says of a name."""

    text: str = ""
    here: str | None = None


def written() -> dict[str, dict[str, Written]]:
    """Return the data file: module -> name -> what it says."""
    data = tomllib.loads(DATA.read_text(encoding="utf-8"))
    return {module: dict(_read(names)) for module, names in data.items()}


def _read(names: dict[str, str | dict[str, str]]) -> Iterator[tuple[str, Written]]:
    before = Written()
    for name, value in names.items():
        if value != "the same":
            before = Written(value) if isinstance(value, str) else Written(**value)
        yield name, before


def rows(module: str) -> list[Row]:
    """Return the rows of a module, or class, of TorchX; each name is in the first table that has it only."""
    known = written().get(module, {})
    earlier = {name for other in MODULES[: MODULES.index(module)] for name in _same(other, module)}
    return [
        _row(module, name, known.get(name, Written()))
        for name in sorted(public_names(module))
        if name not in earlier
    ]


def _row(module: str, name: str, known: Written) -> Row:
    here = known.here or f"{module}.{name}".replace("torchx", "torchx_core", 1)
    try:
        find(here)
    except AttributeError:
        here = ""
    return Row(f"{module}.{name}", here or None, known.text)


def _same(earlier: str, module: str) -> Iterator[str]:
    """Yield the names of a module that stand for the same in an earlier one."""
    theirs = {name: find(f"{earlier}.{name}") for name in public_names(earlier)}
    yield from (n for n in public_names(module) if n in theirs and theirs[n] is find(f"{module}.{n}"))


@cache
def public_names(module: str) -> list[str]:
    """Return what ``__all__`` has, else what the module defines itself; of a class, what can be called."""
    found = find(module)
    if inspect.isclass(found):
        return [name for name, _ in inspect.getmembers(found, callable) if not name.startswith("_")]
    if hasattr(found, "__all__"):
        return [name for name in found.__all__ if hasattr(found, name)]  # TorchX lists some that it has not
    defined = list(_defined(Path(str(getattr(found, "__file__", ""))).read_text(encoding="utf-8")))
    if hasattr(found, "__path__"):  # a package: what its modules define is its own
        homes = {name: getattr(value, "__module__", "") for name, value in vars(found).items()}
        defined += [n for n, home in homes.items() if str(home).startswith(module) and not n.startswith("_")]
    return list(dict.fromkeys(defined))


def _defined(source: str) -> Iterator[str]:
    for statement in ast.parse(source).body:
        match statement:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names = [name]
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (n for n in names if not n.startswith("_") and n not in _NOBODYS)


_NOBODYS = {"CfgT", "F", "S", "T", "log", "logger"}  # a module's own type variables and loggers


@cache
def find(name: str) -> object:
    """Return what a dotted name stands for: an attribute, or else a module of that name.

    Raises:
        AttributeError: There is neither.
    """
    package, *parts = name.split(".")
    found: object = import_module(package)
    for part in parts:
        package = f"{package}.{part}"
        found = getattr(found, part) if hasattr(found, part) else _module(package)
    return found


def _module(name: str) -> object:
    try:
        return import_module(name)
    except ModuleNotFoundError as err:
        raise AttributeError(name) from err


def table(modules: Iterable[str]) -> str:
    """Return one table of the names of the modules, as Markdown."""
    lines = ["| TorchX | here | difference, and why |", "|---|---|---|"]
    for row in (row for module in modules for row in rows(module)):
        here = f"`{row.here}`" if row.here else "no"
        lines.append(f"| `{row.name}` | {here} | {row.difference} |")
    return "\n".join(lines)
