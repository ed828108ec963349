"""Functions whose text no linter need approve, in files of their own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from textwrap import dedent
from types import FunctionType
from typing import TypeAlias

__all__ = ["FILE", "Load", "load_function", "unload"]

FILE = "written.py"
MODULE = "torchx_test_written"

Load: TypeAlias = Callable[[str], Callable[..., object]]


def load_function(directory: Path, text: str) -> Callable[..., object]:
    """Write the text to `FILE` in the directory, load it and return the last function it defines."""
    path = directory / FILE
    path.write_text(dedent(text))
    spec = spec_from_file_location(MODULE, path)
    assert spec
    assert spec.loader
    module = sys.modules[MODULE] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return [value for value in vars(module).values() if isinstance(value, FunctionType)][-1]


def unload() -> None:
    """Forget what was loaded last."""
    sys.modules.pop(MODULE, None)
