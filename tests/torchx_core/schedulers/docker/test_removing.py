"""What an app has on an engine is removed however long that takes, on an engine that stands in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from torchx_core.schedulers.docker import removing
from torchx_core.schedulers.docker.answers import Refused
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.removing import remove_everything
from torchx_core.testing import FakeClock


class _SlowEngine:
    """Takes half a minute to remove a container, and then holds on to the network for some seconds."""

    def __init__(self, clock: FakeClock, network_held_s: float) -> None:
        self._clock = clock
        self._held_s = network_held_s
        self._free_at = float("inf")
        self.present = {"container", "network", "tests.app"}

    def containers(self, _filters: object) -> list[object]:
        return [SimpleNamespace(id=each, labels={}) for each in self.present & {"container"}]

    def network_ids(self, _name: str) -> list[str]:
        return sorted(self.present & {"network"})

    def volumes(self, _filters: object) -> list[object]:
        return []

    def remove_container(self, container: str) -> None:
        self._clock.advance(30)
        self._free_at = self._clock() + self._held_s
        self.present.remove(container)

    def remove_network(self, network: str) -> None:
        if self._clock() < self._free_at:
            raise Refused(f"network {network} has active endpoints", status=403)
        self.present.remove(network)

    def remove_volume(self, _name: str) -> None:
        self.present.discard("tests.app")


def _removing(monkeypatch: pytest.MonkeyPatch, network_held_s: float) -> _SlowEngine:
    clock = FakeClock()
    monkeypatch.setattr(removing, "time", SimpleNamespace(monotonic=clock, sleep=clock.advance))
    return _SlowEngine(clock, network_held_s)


def test_a_network_is_waited_for_however_long_its_containers_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy engine lets go of a network seconds after its last container."""
    engine = _removing(monkeypatch, 5)
    remove_everything(cast("Engine", engine), "tests", "app")
    assert not engine.present


def test_a_network_that_stays_in_use_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever deletes the app is told, and its record stays, so that it can be deleted again."""
    engine = _removing(monkeypatch, 60)
    with pytest.raises(Refused, match="active endpoints"):
        remove_everything(cast("Engine", engine), "tests", "app")
    assert engine.present == {"network", "tests.app"}
