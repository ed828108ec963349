"""Orders to start several replicas again, given in the same moment."""

from __future__ import annotations

import itertools
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.schedulers.slurm.node import orders as module
from torchx_core.schedulers.slurm.node.orders import Orders

PATIENCE_S = 240.0


class Turns:
    """Lets one of several tasks at a time touch the shared directory, in an order that is given."""

    def __init__(self) -> None:
        self._asks = threading.Semaphore(0)
        self._may: dict[int, threading.Semaphore] = {}

    def take(self) -> None:
        """Wait until it is this thread's turn; a thread that has none is not held up."""
        may = self._may.get(threading.get_ident())
        if may is not None:
            self._asks.release()
            assert may.acquire(timeout=PATIENCE_S)

    def play(self, acts: Sequence[Callable[[], None]], picks: Iterator[int]) -> None:
        """Do all of it at once, each step by the next pick's task."""
        threads = [threading.Thread(target=self._play, args=(act,)) for act in acts]
        for thread in threads:
            thread.start()
            assert self._asks.acquire(timeout=PATIENCE_S)
        while alive := [thread for thread in threads if thread.is_alive()]:
            thread = alive[next(picks) % len(alive)]
            self._may[thread.ident or 0].release()
            assert self._asks.acquire(timeout=PATIENCE_S)
            if thread.ident not in self._may:
                thread.join()

    def _play(self, act: Callable[[], None]) -> None:
        self._may[threading.get_ident()] = threading.Semaphore(0)
        try:
            self.take()
            act()
        finally:
            del self._may[threading.get_ident()]
            self._asks.release()


@pytest.fixture(scope="module")
def turns() -> Iterator[Turns]:
    """Turns that each step of giving and reading orders waits for."""
    turns = Turns()

    def in_turn(act: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kinds: Any) -> Any:
            turns.take()
            return act(*args, **kinds)

        return step

    with pytest.MonkeyPatch.context() as patch:
        for name in ("read_json", "write_once"):
            patch.setattr(module, name, in_turn(getattr(module, name)))
        yield turns


def all_obeyed(directory: str, everybody: Sequence[Orders]) -> list[int]:
    """Have all read what is there; return how often each was to start again, whoever told it."""
    told = [0] * len(everybody)
    for index, orders in enumerate(everybody):
        while orders.obey():
            told[index] += 1
    assert {orders.read for orders in everybody} == {len(list(Path(directory).iterdir()))}
    return told


@given(picks=st.lists(st.integers(0, 1), max_size=20))
def test_two_roles_that_fail_in_the_same_moment(turns: Turns, picks: list[int]) -> None:
    """However their steps fall, every replica of both starts again, once."""
    with tempfile.TemporaryDirectory() as directory:
        everybody = [Orders(directory, index, 0) for index in range(4)]
        acts = [lambda: everybody[0].give([0, 1]), lambda: everybody[2].give([2, 3])]
        turns.play(acts, itertools.chain(picks, itertools.cycle((0, 1))))
        assert all_obeyed(directory, everybody) == [0, 1, 0, 1]  # who gave an order has obeyed it


@given(picks=st.lists(st.integers(0, 2), max_size=30))
def test_those_who_name_each_other_start_again_together_once(turns: Turns, picks: list[int]) -> None:
    """Replicas of one gang that fail of the same cause cost one restart, not one each."""
    with tempfile.TemporaryDirectory() as directory:
        everybody = [Orders(directory, index, 0) for index in range(4)]
        acts = [lambda index=index: everybody[index].give([0, 1, 2, 3]) for index in range(3)]
        turns.play(acts, itertools.chain(picks, itertools.cycle((0, 1, 2))))
        assert all_obeyed(directory, everybody) == [0, 0, 0, 1]
        assert [path.name for path in Path(directory).iterdir()] == ["restart.0.json"]


@given(picks=st.lists(st.integers(0, 1), max_size=20))
def test_a_role_and_the_app_that_fail_in_the_same_moment(turns: Turns, picks: list[int]) -> None:
    """Every order is obeyed by whom it names, and peers agree on how often they started again."""
    with tempfile.TemporaryDirectory() as directory:
        everybody = [Orders(directory, index, 0) for index in range(4)]
        acts = [lambda: everybody[0].give([0, 1]), lambda: everybody[2].give([0, 1, 2, 3])]
        turns.play(acts, itertools.chain(picks, itertools.cycle((0, 1))))
        told = all_obeyed(directory, everybody)
        assert told in (
            [1, 2, 0, 1],
            [0, 1, 0, 1],
        )  # and who gave an order has obeyed one: 2, 2, 1, 1 or 1 each


def test_an_order_of_an_earlier_run_is_void(tmp_path: Path) -> None:
    """A requeue has started everybody again anyway; those of this run count, wherever they stand."""
    earlier, late = Orders(str(tmp_path), 0, 0), Orders(str(tmp_path), 1, 0)
    now, peer = Orders(str(tmp_path), 0, 1), Orders(str(tmp_path), 1, 1)
    earlier.give([0, 1])
    now.give([0, 1])
    late.read = 2
    late.give([0, 1])
    assert [peer.obey(), peer.obey()] == [True, False]
    assert (peer.name(0, since=0), peer.name(0, since=2)) == (True, False)
