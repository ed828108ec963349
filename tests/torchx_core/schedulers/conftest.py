"""What the tests over ssh share: a real sshd on the loopback that stands for another host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ssh_server import SshServer, serving_ssh


@pytest.fixture
def lonely_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshServer]:
    """A host that the user's configuration knows as `login`; no cluster's."""
    with serving_ssh({"PATH": "/usr/bin:/bin"}, tmp_path, monkeypatch) as server:
        yield server
