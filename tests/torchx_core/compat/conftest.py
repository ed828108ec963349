from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module, invalidate_caches
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a distribution with a TorchX scheduler of its own; the value is where that keeps its apps.

    By TorchX's two ways: ``shelf`` by an entry point, ``attic`` by a module in ``torchx_plugins.schedulers``.
    And the same scheduler with ``torchx`` changed to ``torchx_core`` in its imports, as ``bench``.
    """
    site, place = tmp_path / "site", tmp_path / "shelf"
    place.mkdir()
    info = site / "shelf-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[torchx.schedulers]\nshelf = torchx_shelf:create_scheduler\n"
        "[torchx_core.schedulers]\nbench = core_shelf:create_scheduler\n"
    )
    source = Path(str(import_module("torchx_shelf").__file__)).read_text()
    (site / "core_shelf.py").write_text(source.replace("from torchx.", "from torchx_core."))
    plugins = site / "torchx_plugins" / "schedulers"
    plugins.mkdir(parents=True)
    (plugins / "attic.py").write_text(
        "from torchx.plugins import register\nfrom torchx_shelf import Shelf\n\n"
        "@register.scheduler()\ndef attic(session_name, **_):\n    return Shelf(session_name)\n"
    )
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    monkeypatch.setenv("TORCHX_SHELF", str(place))
    invalidate_caches()
    _forget_plugins()
    yield place
    _forget_plugins()
    for name in [name for name in sys.modules if name.startswith(("torchx_plugins", "core_shelf"))]:
        del sys.modules[name]


def _forget_plugins() -> None:
    """Have TorchX look for its plugins again; release 0.7 looks each time, and knows entry points alone."""
    if find_spec("torchx.plugins"):
        import_module("torchx.plugins").registry().clear()
