"""Offers schedulers and named resources by a decorator, from modules below the package ``torchx_plugins``.

Any distribution may add modules there: ``torchx_plugins/schedulers/mine.py`` and
``torchx_plugins/named_resources/mine.py``. They are imported when a name is looked up that nothing else has
(a scheduler), or that nothing built in is sure to have (a named resource). Entry points are the other way,
and import less.
"""

from __future__ import annotations

from torchx_core.plugins.fractions import (
    EIGHTH,
    HALF,
    QUARTER,
    SIXTEENTH,
    WHOLE,
    halve_mem_down_to,
    powers_of_two_gpus,
)
from torchx_core.plugins.plugin_registry import PluginRegistry, PluginSource, RegistrationError, registry
from torchx_core.plugins.registration import NAMED_RESOURCES_ATTR, PluginType, register, resource_tags
from torchx_core.plugins.scan import registered

__all__ = [
    "EIGHTH",
    "HALF",
    "NAMED_RESOURCES_ATTR",
    "QUARTER",
    "SIXTEENTH",
    "WHOLE",
    "PluginRegistry",
    "PluginSource",
    "PluginType",
    "RegistrationError",
    "halve_mem_down_to",
    "powers_of_two_gpus",
    "register",
    "registered",
    "registry",
    "resource_tags",
]
