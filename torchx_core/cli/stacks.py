"""``torchx-core stacks``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

import click

from torchx_core import get_runner
from torchx_core.cli.inside import parse_replica, run_inside, running_replicas
from torchx_core.cli.options import cli_command, handle_argument
from torchx_core.cli.output import Output

__all__ = ["command"]

# The replica's processes are those that have its report file in their environment, as this shell has.
_DUMP: Final = r"""
spy= found= code=0
for each in "$@"; do
  command -v "$each" >/dev/null 2>&1 && spy=$each && break
done
if [ ! "$spy" ]; then
  echo "py-spy is not installed where the replica runs; install it there: pip install py-spy" >&2
  exit 127
fi
for dir in /proc/[0-9]*; do
  case $(readlink "$dir/exe" 2>/dev/null) in *python*) ;; *) continue ;; esac
  tr '\0' '\n' <"$dir/environ" 2>/dev/null | grep -qxF "TORCHX_REPORT_FILE=$TORCHX_REPORT_FILE" || continue
  found=1
  "$spy" dump --pid "${dir#/proc/}" || code=$?
  echo
done
[ "$found" ] || echo "no Python runs in the replica" >&2
exit $code
"""


@cli_command("stacks")
@handle_argument()
@click.argument("replica", metavar="[ROLE/K]", required=False)
def command(output: Output, app_handle: str, replica: str | None) -> int:
    """Show where each Python process of a replica is in its code, thread by thread.

    Of every replica that runs, unless one is named. By py-spy, which has to be installed where the replica
    runs: in the image, on the nodes, or locally beside this program. It stops a process for a moment only.
    """
    with get_runner() as runner:
        replicas = [parse_replica(replica)] if replica else running_replicas(runner, app_handle)
        code = 0
        for role, k in replicas:
            if len(replicas) > 1:
                output.lines([f"{role}/{k}"])
            code = run_inside(runner, app_handle, (role, k), _words()) or code
    return code


def _words() -> list[str]:
    """Return the command: it is told where py-spy may be, first by its name."""
    beside = Path(sys.executable).with_name("py-spy")
    places = dict.fromkeys(["py-spy", str(beside), shutil.which("py-spy") or "py-spy"])
    return ["/bin/sh", "-c", _DUMP, "torchx", *places]
