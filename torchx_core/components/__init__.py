"""Components: named functions that make an app from a few arguments, as on a command line.

A component is found by name (`find_component`) and built from words or values (`Component.build`).
Finding a component that is not built in runs the code of its file.
"""

from __future__ import annotations

from torchx_core.components.component import Component
from torchx_core.components.find import find_component, list_components
from torchx_core.components.parameters import REQUIRED, Parameter
from torchx_core.components.value_types import ValueType

__all__ = [
    "REQUIRED",
    "Component",
    "Parameter",
    "ValueType",
    "find_component",
    "list_components",
]
