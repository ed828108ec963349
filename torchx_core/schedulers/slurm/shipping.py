"""Packs what runs on the nodes into one file, which needs nothing there but Python."""

from __future__ import annotations

import io
import zipfile
from functools import cache

from torchx_core import supervisor
from torchx_core.schedulers.slurm import node

__all__ = ["packed"]

_MAIN = f"import sys\n\nfrom {node.__name__}.main import main\n\nsys.exit(main(sys.argv[1:]))\n"
_AROUND = ("torchx_core", "torchx_core/schedulers", "torchx_core/schedulers/slurm", "torchx_core/supervisor")
_SHARED = "reading.py"
"""How a record is read is the same on the nodes."""


@cache
def packed() -> bytes:
    """Return a zip archive that ``python3`` runs; the packages around ours are empty in it."""
    from importlib.resources import files  # our own sources may lie in an archive, too

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("__main__.py", _MAIN)
        for package in _AROUND:
            archive.writestr(f"{package}/__init__.py", "")
        for package, ending in ((node.__name__, ".py"), (supervisor.__name__, _SHARED)):
            for source in sorted(files(package).iterdir(), key=lambda source: source.name):
                if source.name.endswith(ending):
                    archive.writestr(f"{package.replace('.', '/')}/{source.name}", source.read_bytes())
    return content.getvalue()
