"""What is sent to a host so that the agent runs there: one line of Python, then this library, packed.

That host keeps it in memory: nothing is installed there, nothing is left behind, and both sides always
have the same version. All that is asked of it is a Python, which says first which one it is.
"""

from __future__ import annotations

import base64
import io
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import torchx_core
from torchx_core.schedulers.remote.host import RemoteHost

__all__ = ["bundle", "command_line"]

_MODULES: Final = ("__init__.py", "errors.py", "quantities.py", "settings.py", "terminal.py")
_PACKAGES: Final = ("schedulers", "specs", "supervisor")
_LEFT_OUT: Final = ("schedulers/docker",)

# Any Python there is can read this: it tells its version before it meets what it cannot.
_BOOT: Final = """\
import sys
if sys.version_info < (3, 11):
    sys.stdout.write('{"python": "%d.%d.%d"}\\n' % sys.version_info[:3])
    sys.exit(0)
import base64, os
core = os.memfd_create("torchx-core")
with open(core, "wb", closefd=False) as file:
    file.write(base64.b64decode(sys.stdin.readline()))
sys.path.insert(0, "/proc/self/fd/%d" % core)
from torchx_core.schedulers.remote.agent import main
main()
"""


def command_line(host: RemoteHost) -> str:
    """Return what the other host's shell runs, whichever shell it is: it reads `bundle`.

    The Python looks at no directory and no variable that could change what it imports.
    """
    return f"exec {host.python_word} -I -S -c 'import sys;exec(eval(sys.stdin.readline()))'"


@cache
def bundle() -> bytes:
    """Return two lines: the program that reads the second one, and the archive."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        root = Path(torchx_core.__file__).parent
        for path in _sources(root):
            entry = zipfile.ZipInfo(f"{root.name}/{path.relative_to(root)}")  # without the file's own time
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return f"{_BOOT!r}\n".encode() + base64.b64encode(content.getvalue()) + b"\n"


def _sources(root: Path) -> Iterator[Path]:
    yield from (root / module for module in _MODULES)
    for package in _PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            if not path.relative_to(root).as_posix().startswith(_LEFT_OUT):
                yield path
