"""The base of users' tests of components, used as they use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchx_core.components import utils
from torchx_core.components.component_test_base import ComponentTestCase
from torchx_core.errors import ComponentNotFoundException
from torchx_core.specs import AppDef, AppState, Role


def lasting(seconds: str) -> AppDef:
    """Return an app that takes so long."""
    return AppDef("lasting", [Role("main", "", entrypoint="sleep", args=[seconds])])


class TestComponents(ComponentTestCase):
    """The methods that it offers."""

    def test_a_component_is_validated(self) -> None:
        """By the module that it is in."""
        self.validate(utils, "echo")
        with pytest.raises(ComponentNotFoundException):
            self.validate(utils, "ehco")

    def test_a_component_runs(self) -> None:
        """To its end, with a directory of the test's own."""
        assert list(Path(self.test_dir).iterdir()) == []
        params = {"state_dir": self.test_dir, "cache_size": 1}
        status = self.run_component(utils.echo, {"msg": "hi"}, params, timeout=60)
        assert status is not None
        assert status.state == AppState.SUCCEEDED

    def test_the_time_is_over(self) -> None:
        """The status says how far the app is."""
        params = {"state_dir": self.test_dir}
        status = self.run_component(lasting, {"seconds": "2"}, params, timeout=0.01)
        assert status is not None
        assert not status.is_terminal()
        self.run_component(lasting, {"seconds": "0"}, params, timeout=60)

    def test_a_scheduler_that_cannot_be_made_is_an_error(self) -> None:
        """The parameters reach it."""
        with pytest.raises(ValueError, match="cache_size"):
            self.run_component(utils.echo, {"msg": "hi"}, {"cache_size": -1})
