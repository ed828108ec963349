"""Functions as apps: a plain Python function whose replicas run it and hand back what it returns.

The function travels by its source text, its arguments as JSON, both on the command line of its replicas: an
image needs Python and what the function imports, and nothing of ours. Nothing is pickled.
"""

from __future__ import annotations

from torchx_core.functions.app import function_app
from torchx_core.functions.failure import find_raised
from torchx_core.functions.source import FunctionSource, check_function, read_function

__all__ = ["FunctionSource", "check_function", "find_raised", "function_app", "read_function"]
