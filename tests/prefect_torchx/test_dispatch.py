from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from prefect import flow, task

from prefect_torchx.dispatch import dispatch


class _Both:
    """A verb in both ways."""

    @dispatch
    def act(self, what: str, *, how: str = "quickly") -> str:
        """Do it."""
        return f"did {what} {how}"

    async def aact(self, what: str, *, how: str = "quickly") -> str:
        return f"awaited {what} {how}"


def test_a_script_calls_and_a_coroutine_awaits() -> None:
    """Outside of Prefect it is the running event loop that decides."""

    async def main() -> Any:
        return await _Both().act("it", how="well")  # type: ignore[misc]  # the method's type is the synchronous one

    assert _Both().act("it", how="well") == "did it well"
    assert asyncio.run(main()) == "awaited it well"


def test_a_subclass_may_override_either() -> None:
    """The asynchronous twin is looked up where it is called."""

    class Own(_Both):
        async def aact(self, what: str, *, how: str = "quickly") -> str:
            return f"my own {what} {how}"

    async def main() -> Any:
        return await Own().act("it")  # type: ignore[misc]

    assert asyncio.run(main()) == "my own it quickly"


def test_it_looks_like_the_method_it_decorates() -> None:
    """Help shows the method's name and docstring."""
    assert (_Both.act.__name__, _Both.act.__doc__) == ("act", "Do it.")


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # Prefect's own clients, in its own loops
@pytest.mark.usefixtures("prefect_api")
def test_the_innermost_run_decides() -> None:
    """A synchronous task in an asynchronous flow calls, though a loop runs; an asynchronous one awaits."""

    @task
    def called() -> Any:
        return _Both().act("task")

    @task
    async def awaited() -> Any:
        return await _Both().act("task")  # type: ignore[misc]

    @flow
    def synchronous() -> Any:
        return [_Both().act("flow"), called(), called.submit().result()]

    @flow
    async def asynchronous() -> Any:
        own = await _Both().act("flow")  # type: ignore[misc]
        return [own, await awaited(), called(), called.submit().result()]

    assert synchronous() == ["did flow quickly", "did task quickly", "did task quickly"]
    returned = asyncio.run(asynchronous())
    gc.collect()  # what Prefect has left open is reported here, where it is ignored
    assert returned == [
        "awaited flow quickly",
        "awaited task quickly",
        *["did task quickly"] * 2,
    ]
