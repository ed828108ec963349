"""A table made from the packages' requirements and from the pinned versions that the tests run with."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final, NamedTuple

from docutils import nodes
from scheduler_tables import table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import ExtensionMetadata

ROOT: Final = Path(__file__).parents[2]
_PINS: Final = ROOT / "constraints"
_EXTRAS: Final = ("docker", "click", "pytest")
"""Of torchx-core's extras, those that somebody else's installation may already have in another version."""


class Version(NamedTuple):
    """What may be installed beside the packages."""

    what: str
    accepted: str
    tested: str


def versions() -> list[Version]:
    """Return a line for Python, for each engine, and for each package that torchx-core needs."""
    core = _project(ROOT)
    needed = [
        *core["dependencies"],
        *(each for extra in core["optional-dependencies"].values() for each in extra),
    ]
    accepted = dict(_split(each) for each in needed)
    packages = [_split(each)[0] for each in core["dependencies"]] + list(_EXTRAS)
    return [
        Version("Python", str(core["requires-python"]), _pythons()),
        _engine("apache-airflow", "airflow"),
        _engine("prefect", "prefect"),
        *(Version(name, accepted[name], _pinned("dev", name)) for name in packages),
        _torchx(),
        Version("torch, in apps alone", "any that has torchrun", _pinned("demo", "torch")),
    ]


def _project(folder: Path) -> dict[str, object]:
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def _split(requirement: str) -> tuple[str, str]:
    name = re.match(r"[\w.-]+", requirement)
    assert name, requirement
    return name[0], requirement[name.end() :]


def _pinned(file: str, package: str) -> str:
    found = re.search(rf"^{package}==(\S+)", (_PINS / f"{file}.txt").read_text(), re.MULTILINE)
    assert found, (file, package)
    return found[1]


def _engine(package: str, name: str) -> Version:
    dependencies = _project(ROOT / "integrations" / name)["dependencies"]
    accepted = dict(_split(each) for each in dependencies)[package]
    others = sorted(path.stem for path in _PINS.glob(f"{name}-*.txt"))
    tested = {_pinned("dev", package), *(_pinned(file, package) for file in others)}
    return Version(package, accepted, ", ".join(sorted(tested)))


def _torchx() -> Version:
    released = sorted(_pinned(path.stem, "torchx") for path in _PINS.glob("torchx-*.txt"))
    nightly = f"torchx-nightly {_pinned('dev', 'torchx-nightly')}"
    return Version("torchx, for its apps and schedulers", "any", ", ".join([*released, nightly]))


def _pythons() -> str:
    script = (ROOT / "tests" / "wheels" / "try_wheels.sh").read_text()
    return ", ".join(sorted({"3.11", *re.findall(r"\b3\.1\d\b", script)}))


class VersionsTable(SphinxDirective):
    """``versions-table``: what the packages accept, and what they are tested with."""

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        return [table(["what", "accepted", "tested with"], [list(each) for each in versions()])]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Register the directive; Sphinx calls this once per build."""
    app.add_directive("versions-table", VersionsTable)
    return {"parallel_read_safe": True}
