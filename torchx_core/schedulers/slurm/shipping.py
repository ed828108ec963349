"""Packs what runs on the nodes into one file, which needs nothing there but Python."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from torchx_core.schedulers.slurm import node

__all__ = ["packed"]

_MAIN = f"import sys\n\nfrom {node.__name__}.main import main\n\nsys.exit(main(sys.argv[1:]))\n"


def packed() -> bytes:
    """Return a zip archive that ``python3`` runs; the packages around ours are empty in it."""
    content = io.BytesIO()
    names = node.__name__.split(".")
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("__main__.py", _MAIN)
        for depth in range(1, len(names)):
            archive.writestr("/".join([*names[:depth], "__init__.py"]), "")
        for path in sorted(Path(node.__file__).parent.glob("*.py")):
            archive.writestr("/".join([*names, path.name]), path.read_bytes())
    return content.getvalue()
