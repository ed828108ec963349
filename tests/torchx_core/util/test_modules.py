"""TorchX's small functions about modules, names and sessions; asked of TorchX as well."""

from __future__ import annotations

import os.path
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from torchx_core.util import session, strings

BROKEN = {"raises": "raise RuntimeError('no good')\n", "lacks": "import nothing_of_that_name\n"}


@pytest.fixture(params=["torchx_core", "torchx"])
def modules(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return ``util.modules`` of either package, where modules that cannot be imported are in the path."""
    for name, text in BROKEN.items():
        (tmp_path / f"{name}_at_import.py").write_text(text)
        monkeypatch.delitem(sys.modules, f"{name}_at_import", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))  # pyright: ignore[reportUnknownMemberType]  # pytest leaves it open
    return import_module(f"{request.param}.util.modules")


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("os.path", os.path),
        ("os.path:join", os.path.join),
        ("os.path:join:more", None),
        ("os.path:nothing", None),
        ("nothing.of.that.name", None),
    ],
)
def test_what_is_loaded(modules: Any, path: str, found: object) -> None:
    """A module, or an attribute of one, or None."""
    assert modules.load_module(path) is found


def test_no_warning_of_a_module_that_is_not_there(modules: Any, caplog: pytest.LogCaptureFixture) -> None:
    """It may well not be installed."""
    modules.load_module("nothing.of.that.name")
    assert not caplog.records


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_module_is_told(modules: Any, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is None, but somebody should know why."""
    assert modules.load_module(f"{name}_at_import") is None
    assert f"{name}_at_import" in caplog.text


def test_an_attribute_or_a_default(modules: Any) -> None:
    """The default is for a module that is not there, not for one that is broken or lacks the attribute."""
    assert modules.import_attr("os.path", "join", None) is os.path.join
    assert modules.import_attr("nothing.of.that.name", "x", "default") == "default"
    with pytest.raises(AttributeError):
        modules.import_attr("os.path", "joyin", None)
    with pytest.raises(ModuleNotFoundError):
        modules.import_attr("lacks_at_import", "x", "default")


@pytest.mark.parametrize("text", ["abcd123", "-/_a/b/CD!123!", "--a-B", "!!!", "", "ÄÖ-x"])
def test_names_for_strict_backends(text: str) -> None:
    """The same as TorchX's."""
    assert strings.normalize_str(text) == import_module("torchx.util.strings").normalize_str(text)


def test_the_session_of_an_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in the environment of every replica; nobody makes one up."""
    monkeypatch.delenv(session.TORCHX_INTERNAL_SESSION_ID, raising=False)
    assert session.get_torchx_session_id() is None
    monkeypatch.setenv(session.TORCHX_INTERNAL_SESSION_ID, "nightly")
    assert session.get_torchx_session_id() == "nightly"
