"""What is shipped to the nodes."""

from __future__ import annotations

import ast
import io
import sys
import zipfile

from torchx_core.schedulers.slurm.submit import packed


def test_it_runs_on_old_pythons() -> None:
    """Nothing in it is newer than Python 3.7, and it imports the standard library and itself alone."""
    seen: set[str] = set()
    archive = zipfile.ZipFile(io.BytesIO(packed()))
    for name in archive.namelist():
        tree = ast.parse(archive.read(name), feature_version=(3, 7))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                seen.add(str(node.module))
            elif isinstance(node, ast.Import):
                seen.update(alias.name for alias in node.names)
        text = archive.read(name).decode()
        assert "from __future__ import annotations\n" in text or ": " not in text, (
            name
        )  # `list[str]` is newer
    own = {name.removesuffix(".py").replace("/", ".") for name in archive.namelist()}
    foreign = seen - own
    assert {name.partition(".")[0] for name in foreign} <= sys.stdlib_module_names
