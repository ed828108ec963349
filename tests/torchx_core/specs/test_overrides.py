"""Fields of a role that are made when somebody reads them."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from torchx_core.specs import AppDef, Role


def _role(**overrides: object) -> Role:
    return Role("r", "img", overrides=overrides)


async def _later(value: str) -> str:
    await asyncio.sleep(0)
    return value


@pytest.mark.parametrize(
    "make",
    [lambda: "made", lambda: lambda: "made", lambda: _later("made")],
    ids=["value", "function", "coroutine"],
)
def test_what_is_there_is_the_field(make: Callable[[], object]) -> None:
    """A value, what a function returns, what a coroutine returns; other fields are the role's own."""
    role = _role(image=make())
    assert (role.image, role.image, role.name) == ("made", "made", "r")


def test_a_coroutine_below_an_event_loop() -> None:
    """The loop of this thread cannot run a second time."""

    async def read() -> str:
        return _role(image=_later("made")).image

    assert asyncio.run(read()) == "made"


def test_a_future_of_the_running_loop_is_refused() -> None:
    """To wait for it would be to wait for oneself; it stays, to be awaited."""

    async def read() -> None:
        future = asyncio.get_running_loop().create_future()
        role = _role(image=future)
        with pytest.raises(RuntimeError, match=r"overrides\['image'\] is a future of the event loop"):
            _ = role.image
        assert role.overrides["image"] is future

    asyncio.run(read())


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_a_future_of_another_threads_loop(in_a_loop: bool) -> None:
    """It is awaited where it lives."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        future = asyncio.run_coroutine_threadsafe(_task(), loop).result()
        role = _role(image=future)

        async def read() -> str:
            return role.image

        assert (asyncio.run(read()) if in_a_loop else role.image) == "made"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _task() -> asyncio.Task[str]:
    return asyncio.create_task(_later("made"))


def test_it_is_made_once_for_all_that_share_it() -> None:
    """Threads that come meanwhile wait, whichever role they ask."""
    calls, entered, go = list[int](), threading.Event(), threading.Event()

    def make() -> str:
        calls.append(1)
        entered.set()
        assert go.wait(60)
        return "made"

    shared: dict[str, object] = {"image": make}
    roles = [Role("a", "img", overrides=shared), Role("b", "img", overrides=shared)]
    with ThreadPoolExecutor(4) as pool:
        reads = [pool.submit(getattr, role, "image") for role in roles * 2]
        assert entered.wait(60)
        assert _role(image=lambda: "other").image == "other"  # another dict's is not waited for
        go.set()
        assert {read.result() for read in reads} == {"made"}
    assert calls == [1]


def test_a_function_may_read_another_field() -> None:
    """Of the same role, in the same thread."""
    role = _role(entrypoint=lambda: "main.py")
    role.overrides["image"] = lambda: f"{role.entrypoint}-img"
    assert role.image == "main.py-img"


def test_one_that_fails_stays() -> None:
    """Whoever reads it next tries again."""
    tries = iter([ZeroDivisionError("not yet"), None])

    def make() -> str:
        if error := next(tries):
            raise error
        return "made"

    role = _role(image=make)
    with pytest.raises(ZeroDivisionError):
        _ = role.image
    assert role.image == "made"


def test_a_role_with_made_values_is_copied_and_written() -> None:
    """By `copy`, `pickle`, and as JSON, which has the fields."""
    role = _role(image="made")
    assert role.image == "made"
    assert copy.deepcopy(role).image == pickle.loads(pickle.dumps(role)).image == "made"
    assert AppDef.from_json(AppDef("app", [role]).to_json()).roles == [Role("r", "made")]
