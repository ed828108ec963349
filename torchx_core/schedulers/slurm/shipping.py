"""Packs what runs on the nodes into one file, which needs nothing there but Python."""

from __future__ import annotations

import io
import zipfile
from functools import cache

from torchx_core.schedulers.slurm import node

__all__ = ["packed"]

_MAIN = f"import sys\n\nfrom {node.__name__}.main import main\n\nsys.exit(main(sys.argv[1:]))\n"


@cache
def packed() -> bytes:
    """Return a zip archive that ``python3`` runs; the packages around ours are empty in it."""
    from importlib.resources import files  # our own sources may lie in an archive, too

    content = io.BytesIO()
    names = node.__name__.split(".")
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("__main__.py", _MAIN)
        for depth in range(1, len(names)):
            archive.writestr("/".join([*names[:depth], "__init__.py"]), "")
        for source in sorted(files(node).iterdir(), key=lambda source: source.name):
            if source.name.endswith(".py"):
                archive.writestr("/".join([*names, source.name]), source.read_bytes())
    return content.getvalue()
