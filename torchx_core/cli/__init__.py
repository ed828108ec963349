"""The program ``torchx-core``: run, follow and end apps from a shell."""

from __future__ import annotations

import sys

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """Carry out the process's command line and exit with its code."""
    try:
        from torchx_core.cli.program import run_program

        sys.exit(run_program(sys.argv[1:]))
    except KeyboardInterrupt:  # while modules are imported; later the commands see to it
        sys.exit(_INTERRUPTED)
    except ModuleNotFoundError as err:
        if err.name != "click":
            raise
        sys.exit(
            "torchx-core: the command line needs click, which is missing; pip install 'torchx-core[cli]'"
        )
