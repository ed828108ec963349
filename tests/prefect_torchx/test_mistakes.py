"""The mistakes of a flow's author, and the words that each gets: those of the documentation."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_torchx import run_app, torchx_task
from torchx_core import Runner
from torchx_core.errors import TorchXError

pytestmark = pytest.mark.engine

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
CALL, FILE = "in the call of `run_app`", "in the file of a `@torchx_task`"


def _app(**fields: object) -> dict[str, object]:
    return {"name": "a", "roles": [{"name": "r", "image": "", "entrypoint": "true", **fields}]}


CALLS: dict[str, dict[str, Any]] = {
    "an unknown scheduler": {"app": _app(), "scheduler": "local_cdw"},
    "a misspelt option": {"app": _app(), "cfg": {"grase_s": 5}},
    "an option of a wrong type": {"app": _app(), "cfg": {"grace_s": "soon"}},
    "no roles": {"app": {"name": "a", "roles": []}},
    "a misspelt field": {"app": _app(num_replica=2)},
    "a program that is not there": {"app": _app(entrypoint="trian")},
    "both app and component": {"app": _app(), "component": "utils.echo"},
    "neither app nor component": {},
    "an unknown component": {"component": "utils.eco"},
    "an unknown argument of a component": {"component": "utils.echo", "component_args": {"message": "x"}},
    "a workspace where none can be built, with `unsupported=refuse`": {
        "app": _app(),
        "workspace": "./src",
        "cfg": {"unsupported": "refuse"},
    },
    "a wrong reaction to a shutdown": {"app": _app(), "on_worker_shutdown": "stop"},
    "an empty key": {"app": _app(), "idempotency_key": ""},
}


def save(values: list[int]) -> str:
    """Use what is outside."""
    return json.dumps(values)


def plain(value: object) -> object:
    """Return the argument."""
    return value


FILES: dict[str, Callable[[], object]] = {
    "a misspelt option": lambda: torchx_task(replica=2)(plain),  # type: ignore[call-overload]  # wrong
    "no replicas": lambda: torchx_task(replicas=0)(plain),
    "a name from outside the function": lambda: torchx_task(save),
    "an argument that is no plain data": lambda: torchx_task(plain).app({1, 2}),
    "an argument too many": lambda: torchx_task(plain).app(1, 2),  # type: ignore[call-arg]  # wrong on purpose
}


def _page(heading: str) -> dict[str, str]:
    """Return the messages of the page's table with that heading, by mistake."""
    _, _, table = PAGE.read_text().partition(f"| {heading} | message |\n|---|---|\n")
    rows = (line.strip("| ").split(" | ", 1) for line in table.partition("\n\n")[0].splitlines())
    return {mistake: message[1:-1] for mistake, message in rows}


def _pattern(message: str) -> str:
    return ".*".join(map(re.escape, message.split("…")))


def test_the_page_has_every_mistake() -> None:
    """The page lists exactly the mistakes that the tests make."""
    assert (list(_page(CALL)), list(_page(FILE))) == (list(CALLS), list(FILES))


@pytest.mark.parametrize("mistake", CALLS)
def test_a_wrong_call_submits_nothing_and_gets_the_pages_words(mistake: str, runner: Runner) -> None:
    """From the first word to the last."""
    with pytest.raises(TorchXError) as raised:
        run_app(**CALLS[mistake])
    assert re.fullmatch(_pattern(_page(CALL)[mistake]), str(raised.value), re.DOTALL), raised.value
    assert runner.list("local_cwd") == []


@pytest.mark.parametrize("mistake", FILES)
def test_a_wrong_function_gets_the_pages_words(mistake: str) -> None:
    """From the first word to the last."""
    with pytest.raises(TorchXError) as raised:
        FILES[mistake]()
    assert re.fullmatch(_pattern(_page(FILE)[mistake]), str(raised.value), re.DOTALL), raised.value
