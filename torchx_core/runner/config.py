"""TorchX's path of the functions that read ``.torchxconfig``; they are defined in `torchx_core.config`."""

import os
from typing import Final

from torchx_core.config import apply, dump, find_configs, get_config, get_configs, load, load_sections
from torchx_core.config.files import CONFIG_FILE, default_dirs
from torchx_core.settings import ENV_TORCHXCONFIG

__all__ = [
    "CONFIG_FILE",
    "CONFIG_PREFIX_DELIM",
    "DEFAULT_CONFIG_DIRS",
    "ENV_TORCHXCONFIG",
    "apply",
    "dump",
    "find_configs",
    "get_config",
    "get_configs",
    "load",
    "load_sections",
]

DEFAULT_CONFIG_DIRS: list[str]
"""Where files are looked for when a call names no directories: ``$HOME``, then the working directory.

Made anew whenever it is read, because the calls look anew as well; changing it changes nothing.
"""
CONFIG_PREFIX_DELIM: Final = ":"
"""What stands between a section's kind and its name, as in ``[component:dist.ddp]``."""


def __getattr__(name: str) -> list[str]:
    """Return the directories (PEP 562)."""
    if name != "DEFAULT_CONFIG_DIRS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return default_dirs(os.environ)
