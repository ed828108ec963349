"""What the cases of `torchx_program` share: the package that is asked, and the apps that it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGE, PLACE = sys.argv[1], Path(sys.argv[2])
specs: Any = import_module(f"{PACKAGE}.specs")
runner_module: Any = import_module(f"{PACKAGE}.runner")
api: Any = import_module(f"{PACKAGE}.schedulers.api")
LOCAL = "local_cwd"
RESOURCE = specs.Resource(cpu=1, gpu=0, memMB=64)
CASES: dict[str, Callable[[Any], Any]] = {}


def case(run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Make the function a case."""
    CASES[run.__name__] = run
    return run


def app(*argv: str, **role: Any) -> Any:
    """An app of one role."""
    fields = {
        "name": "r",
        "image": "img",
        "entrypoint": argv[0],
        "args": list(argv[1:]),
        "resource": RESOURCE,
    }
    return specs.AppDef("app", [specs.Role(**{**fields, **role})])


def script(text: str, **role: Any) -> Any:
    """An app of a shell's script; its dollars are not the macros'."""
    return app("sh", "-c", text.replace("$", "$$"), **role)


def ended(runner: Any, given: Any, cfg: Any = None, **log: Any) -> list[str]:
    """Run the app to its end, and return the first replica's lines."""
    handle = runner.run(given, LOCAL, cfg or {})
    runner.wait(handle, 0.1)
    return list(runner.log_lines(handle, "r", **log))


def program(name: str, text: str) -> None:
    """Write a program into the directory."""
    path = PLACE / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
