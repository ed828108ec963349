"""Names for apps that nobody named."""

from __future__ import annotations

import re

import pytest

from torchx_core.schedulers.ids import get_len_random_id, make_unique, random_id, random_uint64
from torchx_core.specs import make_app_handle


@pytest.mark.parametrize("name", ["train", "a'; echo", "Größe", "", "---", "x" * 300, "a/b c\n", "日本"])
def test_any_app_gets_an_id_that_is_legal_everywhere(name: str) -> None:
    """As a host name, a container name, a file name and a part of a handle."""
    app_id = make_unique(name)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", app_id)
    assert len(app_id) <= 63
    make_app_handle("fake", "session", app_id)


def test_the_name_can_be_recognised() -> None:
    """The id starts with it."""
    assert make_unique("Train 1").startswith("train-1-")


def test_ids_do_not_repeat() -> None:
    """Apps of one name get different ids."""
    assert len({make_unique("train") for _ in range(1000)}) == 1000


def test_random_letters_come_in_any_number() -> None:
    """The letters are those of ids, and no call gives what another gave."""
    for length in (1, 6, 100):
        assert re.fullmatch(r"[a-z]+", get_len_random_id(length))
        assert len(get_len_random_id(length)) == length
    assert make_unique("train", 6).startswith("train-")
    assert len(make_unique("train", 6)) == len("train-") + 6
    assert random_id() != random_id()
    for most, letters in ((None, 13), (20, 13), (6, 6), (0, 0), (-1, 0)):
        assert len(random_id(most)) == letters
    assert random_uint64() != random_uint64() < 2**64
