"""Steps as a program of a real process."""

from __future__ import annotations

import inspect

from torchx_core.testing import step_program
from torchx_core.testing.steps import Step

__all__ = ["python_program"]


def python_program(*steps: Step, python: str = "python3") -> tuple[str, list[str]]:
    """Return entrypoint and arguments of a program that carries out the steps.

    Args:
        steps: What it does, in order.
        python: The interpreter where it runs; nothing else is needed there.
    """
    words = ["-c", inspect.getsource(step_program), *map(str, steps)]
    return python, [word.replace("$", "$$") for word in words]  # nothing in there is a macro
