"""Does the same with TorchX and with this package, each in a process of its own, and says what came.

``python torchx_program.py torchx_core DIRECTORY`` prints a JSON object: case -> answer. What a case raises is
its answer, as the name of TorchX's error class, or else of the built-in one.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from typing import Any

from torchx_case import CASES, PACKAGE, PLACE, runner_module, specs

finder: Any = import_module(f"{PACKAGE}.specs.finder")
KNOWN = (
    specs.MalformedAppHandleException,
    specs.UnknownAppException,
    specs.InvalidRunConfigException,
    finder.ComponentNotFoundException,
    finder.ComponentValidationException,
)


def main() -> None:
    """Run all cases, and print their answers."""
    for cases in ("torchx_cases_apps", "torchx_cases_environment", "torchx_cases_runner"):
        import_module(cases)
    os.chdir(PLACE)
    answers = {}
    with runner_module.get_runner() as runner:
        for name, run in CASES.items():
            try:
                answers[name] = run(runner)
            except Exception as err:  # noqa: BLE001  # it is the answer
                names = [cls.__name__ for cls in KNOWN if isinstance(err, cls)]
                built_in = [cls.__name__ for cls in type(err).__mro__ if cls.__module__ == "builtins"]
                answers[name] = f"raises {(names or built_in)[0]}"
    sys.stdout.write(json.dumps(answers))


if __name__ == "__main__":
    main()
