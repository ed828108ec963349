"""Options from ``.torchxconfig`` files and the environment."""

from __future__ import annotations

from torchx_core.config.config import Config, RunDefaults, read_config
from torchx_core.config.files import find_configs
from torchx_core.config.settings import ConfigFile, Origin, Section, Setting
from torchx_core.config.template import dump
from torchx_core.config.torchx_api import apply, get_config, get_configs, load, load_sections

__all__ = [
    "Config",
    "ConfigFile",
    "Origin",
    "RunDefaults",
    "Section",
    "Setting",
    "apply",
    "dump",
    "find_configs",
    "get_config",
    "get_configs",
    "load",
    "load_sections",
    "read_config",
]
