"""Loads the module that defines a component, after its text was looked at.

What is loaded stays loaded: asking again gives the same module, and a file that changes on disk is read anew
by the next process only.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import blake2b
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Protocol, TypeAlias, runtime_checkable

from torchx_core.components.places import Places
from torchx_core.components.problems import Flaw, refusal
from torchx_core.errors import TorchXError

__all__ = ["Look", "load_file", "load_module"]

_logger = logging.getLogger(__name__)
_loading = RLock()  # reentrant: a component file may look for components while it is loaded

Look: TypeAlias = Callable[[str, str], None]
"""Called with a file and its text before its code runs; raises to keep it from running."""


def load_module(component: str, name: str, places: Places, look: Look) -> ModuleType | None:
    """Import a dotted module and return it, or None when there is none of that name.

    Each package on the way is imported first, if the places admit it.

    Args:
        component: For messages.
        name: The module.
        places: Where it and its packages may lie.
        look: Called for the module itself, not for its packages.

    Raises:
        InvalidInputError: It lies in another place.
        ComponentValidationException: Its code fails.
    """
    parents = name.split(".")[:-1]
    for depth in range(1, len(parents) + 1):
        if _import(component, ".".join(parents[:depth]), places, None) is None:
            return None
    return _import(component, name, places, look)


def load_file(component: str, file: str, places: Places, look: Look) -> ModuleType:
    """Load a file as the module that it is and return it.

    A file in a package (directories with ``__init__.py``) is loaded as ``package.module``, so that it can
    import its siblings; any other is loaded under its own name. The directory above is appended to
    ``sys.path`` and stays there, because functions may import when they run. When another module has that
    name already, the file is loaded under a name of its own.

    Raises:
        InvalidInputError: It, or its package, lies in another place.
        ComponentValidationException: Its code fails.
    """
    path = Path(os.path.abspath(file))  # noqa: PTH100  # links stay: a linked file's siblings lie at the link
    places.admit(str(path))
    name, root = _identity(path)
    with _loading, _reachable(root):
        importlib.invalidate_caches()  # the file may be younger than the last look at its directory
        if name and _leads_to(name, root, path):
            module = load_module(component, name, places, look)
            if module is not None:
                return module
        elif "." in name:
            _logger.warning("package %s of %s is hidden by another one of that name", name, path)
        return _load_alone(component, path, look)


def _import(component: str, name: str, places: Places, look: Look | None) -> ModuleType | None:
    spec = _find(name)
    if spec is None or (spec.origin and not spec.has_location):  # built into Python
        return None
    if look is None and spec.submodule_search_locations is None:  # no package: not run for nothing
        return None
    if spec.origin:
        places.admit(spec.origin)
    with _foreign_code(component, spec.origin or name):
        if look and spec.origin:
            look(spec.origin, _source_of(spec) or "")
        return importlib.import_module(name)


def _source_of(spec: ModuleSpec) -> str | None:
    """Return the text of the module, or None when there is none to read.

    Raises:
        OSError: The file cannot be read.
        SyntaxError: The bytes are not in the encoding that they declare.
    """
    loader: object = spec.loader
    if not isinstance(loader, _HasSource):
        return None
    try:
        return loader.get_source(spec.name)
    except UnicodeDecodeError as err:
        raise SyntaxError(str(err)) from err
    except ImportError as err:
        raise err.__cause__ or err from None  # the loader hides why the file cannot be read


@runtime_checkable
class _HasSource(Protocol):
    def get_source(self, fullname: str, /) -> str | None: ...


def _find(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except (ImportError, ValueError):  # its parent is no package; it was not made by an import
        return None


def _identity(path: Path) -> tuple[str, Path]:
    """Return the file's module name, empty when it can have none, and the directory to find it from."""
    parts = [] if path.stem == "__init__" else [path.stem]
    root = path.parent
    while root.name.isidentifier() and (root / "__init__.py").is_file():
        parts.append(root.name)
        root = root.parent
    return ".".join(reversed(parts)) if all(map(str.isidentifier, parts)) else "", root


@contextmanager
def _reachable(root: Path) -> Generator[None]:
    added = str(root) not in sys.path
    if added:
        sys.path.append(str(root))
    try:
        yield
    except BaseException:
        if added:
            sys.path.remove(str(root))
        raise


def _leads_to(name: str, root: Path, path: Path) -> bool:
    """Return whether importing the name leads to our file or package, and not to another of that name."""
    top, dot, _ = name.partition(".")
    ours = root / top / "__init__.py" if dot else path
    spec = _find(top)
    try:
        return bool(spec and spec.origin and spec.has_location and ours.samefile(spec.origin))
    except FileNotFoundError:  # a module stays loaded when its file is gone
        return False


def _load_alone(component: str, path: Path, look: Look) -> ModuleType:
    name = f"torchx_component_{blake2b(bytes(path), digest_size=8).hexdigest()}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_loader(name, SourceFileLoader(name, str(path)))
    assert spec
    assert spec.loader
    with _foreign_code(component, str(path)):
        look(str(path), _source_of(spec) or "")
        module = sys.modules[name] = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


@contextmanager
def _foreign_code(component: str, file: str) -> Generator[None]:
    try:
        yield
    except TorchXError:
        raise
    except (Exception, SystemExit) as err:  # somebody else's code: it may raise anything, and leave
        lines = [frame.lineno for frame in traceback.extract_tb(err.__traceback__) if frame.filename == file]
        what = f"{type(err).__name__}: {err}".splitlines()[0]
        line = lines[-1] or 1 if lines else 1
        flaw = Flaw(f"cannot be loaded: {what}", "correct it, or install what it needs")
        raise refusal(component, file, line, [flaw]) from err
