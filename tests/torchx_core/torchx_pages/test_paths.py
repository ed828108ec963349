"""The module paths that users and other packages import, with ``torchx`` changed to ``torchx_core``."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

PATHS = [
    "components.component_test_base",
    "components.dist",
    "components.structured_arg",
    "components.utils",
    "plugins",
    "runner",
    "runner.api",
    "runner.config",
    "runner.events",
    "schedulers",
    "schedulers.api",
    "schedulers.devices",
    "schedulers.docker_scheduler",
    "schedulers.ids",
    "schedulers.local_scheduler",
    "schedulers.streams",
    "settings",
    "specs",
    "specs.api",
    "specs.builders",
    "specs.file_linter",
    "specs.finder",
    "specs.metadata_keys",
    "specs.named_resources_aws",
    "specs.named_resources_generic",
    "specs.overlays",
    "util.types",
]
FOREIGN = """
import sys
before = set(sys.modules)
import {module}
names = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*sorted(names - set(sys.stdlib_module_names) - {{"torchx_core"}}))
"""


@pytest.mark.parametrize("path", PATHS)
def test_a_path_is_there_as_in_torchx(path: str) -> None:
    """And importing it loads no third-party module."""
    import_module(f"torchx.{path}")
    program = FOREIGN.format(module=f"torchx_core.{path}")
    told = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.split() == []
