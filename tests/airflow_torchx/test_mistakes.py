"""The mistakes of a DAG's author, and the words that each gets: those of the documentation."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from airflow_dags import Dags

from airflow_torchx import TorchXRunOperator
from torchx_core.errors import TorchXError

pytestmark = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore"),  # Airflow's own are not ours to mend
]

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
AT_PARSE, AT_RUN = "in the DAG file", "when the task runs"


def _app(**fields: object) -> dict[str, object]:
    return {"name": "a", "roles": [{"name": "r", "image": "", "entrypoint": "true", **fields}]}


PARSED: dict[str, dict[str, object]] = {
    "an unknown scheduler": {"app": _app(), "scheduler": "local_cdw"},
    "a misspelt option": {"app": _app(), "cfg": {"grase_s": 5}},
    "an option of a wrong type": {"app": _app(), "cfg": {"grace_s": "soon"}},
    "no roles": {"app": {"name": "a", "roles": []}},
    "a misspelt field": {"app": _app(num_replica=2)},
    "a field of a wrong type": {"app": _app(num_replicas="two")},
    "arguments as one text": {"app": _app(args="--lr 0.1")},
    "something that is no app": {"app": 7},
    "both app and component": {"app": _app(), "component": "utils.echo"},
    "neither app nor component": {},
    "an unknown component": {"component": "utils.eco"},
    "an unknown argument of a component": {"component": "utils.echo", "component_args": {"message": "x"}},
    "a component's argument of a wrong type": {
        "component": "utils.echo",
        "component_args": {"msg": "x", "num_replicas": "x"},
    },
    "a workspace where none can be built, with `unsupported=refuse`": {
        "app": _app(),
        "workspace": "./src",
        "cfg": {"unsupported": "refuse"},
    },
    "a wrong reaction to a shutdown": {"app": _app(), "on_worker_shutdown": "stay"},
    "a lease that is no number": {"app": _app(), "lease_s": "soon"},
    "a limit that is no number": {"app": _app(), "log_limit_mb": "x"},
    "exit codes as a text": {"app": _app(), "fail_on_exit_codes": "1"},
    "a flag that is none": {"app": _app(), "deferrable": "yes"},
    "a name that is no text": {"app": _app(), "session": 7},
    "options as a list": {"app": _app(), "cfg": ["grace_s=5"]},
    "a component's arguments as one text": {"component": "utils.echo", "component_args": "--msg x"},
}
RUN: dict[str, str] = {
    "a program that is not there": 'app=app("trian")',
    "a script that is not there": 'app=app("python3", "trian.py")',
    "an unknown field of a connection": 'app=app("true"), torchx_conn_id="gpus"',
    "a connection's field of a wrong type": 'app=app("true"), torchx_conn_id="gpus"',
}
CONNECTIONS: dict[str, dict[str, object]] = {
    "an unknown field of a connection": {"schedular": "local_cwd"},
    "a connection's field of a wrong type": {"session": 7},
}


def _page(heading: str) -> dict[str, str]:
    """Return the messages of the page's table with that heading, by mistake."""
    _, _, table = PAGE.read_text().partition(f"| {heading} | message |\n|---|---|\n")
    rows = (line.strip("| ").split(" | ", 1) for line in table.partition("\n\n")[0].splitlines())
    return {mistake: message.strip("`") for mistake, message in rows}


def _pattern(message: str) -> str:
    return ".*".join(map(re.escape, message.split("…")))


def test_the_page_has_every_mistake() -> None:
    """The page lists exactly the mistakes that the tests make."""
    assert (list(_page(AT_PARSE)), list(_page(AT_RUN))) == (list(PARSED), list(RUN))


@pytest.mark.parametrize("mistake", PARSED)
def test_a_mistake_is_an_import_error_with_the_pages_words(mistake: str) -> None:
    """From the first word to the last."""
    with pytest.raises(TorchXError) as raised:
        TorchXRunOperator(task_id="t", **PARSED[mistake])  # type: ignore[arg-type]  # wrong on purpose
    assert re.fullmatch(_pattern(_page(AT_PARSE)[mistake]), str(raised.value), re.DOTALL), raised.value


@pytest.mark.parametrize("mistake", RUN)
def test_a_mistake_that_a_worker_finds_fails_for_good(
    dags: Dags, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    """With the page's words, and without a second try."""
    connection = {"conn_type": "torchx", "extra": CONNECTIONS.get(mistake, {})}
    monkeypatch.setenv("AIRFLOW_CONN_GPUS", json.dumps(connection))
    outcome = dags.run(f"""
        TorchXRunOperator(task_id="t", {RUN[mistake]}, retries=3, retry_delay=timedelta(0))
    """)
    assert outcome.state == "failed"
    assert re.search("AirflowFailException: " + _pattern(_page(AT_RUN)[mistake]), outcome.log, re.DOTALL)
    assert outcome.log.count("submitted local_cwd://") <= 1
