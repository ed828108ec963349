"""What is shipped to the nodes."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import zipfile
from importlib.util import MAGIC_NUMBER
from pathlib import Path

import pytest

from torchx_core.schedulers.slurm.submit import packed


def test_it_runs_on_old_pythons() -> None:
    """Nothing in it is newer than Python 3.7, and it imports the standard library and itself alone."""
    seen: set[str] = set()
    archive = zipfile.ZipFile(io.BytesIO(packed()))
    sources = [name for name in archive.namelist() if name.endswith(".py")]
    for name in sources:
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
    own = {name.removesuffix(".py").replace("/", ".") for name in sources}
    foreign = seen - own
    assert {name.partition(".")[0] for name in foreign} <= sys.stdlib_module_names


@pytest.mark.parametrize(
    ("magic", "compiled"),
    [
        pytest.param(MAGIC_NUMBER, False, id="the same Python"),
        pytest.param(b"\0\0\r\n", True, id="another Python"),
    ],
)
def test_a_node_compiles_it_only_for_another_python(magic: bytes, compiled: bool, tmp_path: Path) -> None:
    """The code is there for the submitter's Python, and the source for all others."""
    shim, empty = tmp_path / "shim.pyz", list[str]()
    with zipfile.ZipFile(io.BytesIO(packed())) as archive, zipfile.ZipFile(shim, "w") as other:
        for name in archive.namelist():
            data = archive.read(name)
            empty += [] if data else [name]
            other.writestr(name, magic + data[len(magic) :] if name.endswith(".pyc") else data)
    script = (
        "import sys\n"
        "def hook(event, args):\n"
        "    if event == 'compile' and args[1] and 'shim.pyz' in str(args[1]): print(args[1])\n"
        "sys.addaudithook(hook)\n"
        f"sys.path.insert(0, {str(shim)!r})\n"
        "from torchx_core.schedulers.slurm.node import lead, task\n"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=True
    )
    assert ("program.py" in ran.stdout) is compiled
    assert compiled or set(map(Path, ran.stdout.split())) <= {shim / path for path in empty}
