"""What ``--json`` prints is what docs/reference/cli-schemas says, key by key."""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest
from cli_apps import Cli, app_file, ended, submitted

from torchx_core import get_runner
from torchx_core.cli.program import COMMANDS
from torchx_core.testing import (
    Exit,
    FailUntil,
    Hold,
    Print,
    ReportMetric,
    ReportProgress,
    ReportResult,
    Use,
    wait_until,
)

Json: TypeAlias = "dict[str, object]"

jsonschema: Any = import_module("jsonschema")  # neither has types that a checker could use
referencing: Any = import_module("referencing")

FOLDER = Path(__file__).parents[3] / "docs" / "reference" / "cli-schemas"
ALL_REPORTS = (
    ReportProgress(0.5, "half"),
    ReportMetric("loss", float("nan"), 1),
    ReportMetric("acc", 0.5),
    ReportResult({"best": [1, None]}),
    Print("out"),
    Print("err", "stderr"),
    Print("unfinished", eol=False),
)


def schema(name: str) -> Json:
    """Return a schema that refuses each key which it does not name: nothing undocumented is printed."""
    return cast("Json", _closed(json.loads((FOLDER / f"{name}.json").read_text())))


def _closed(node: object) -> object:
    if isinstance(node, list):
        return [_closed(item) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in cast("Json", node).items()}
    if "properties" in closed:
        closed.setdefault("additionalProperties", False)
    return closed


def check(name: str, documents: Iterable[object]) -> None:
    """Validate documents, of which there is at least one."""
    files = [(f"{p.stem}.json", referencing.Resource.from_contents(schema(p.stem))) for p in FOLDER.iterdir()]
    registry = referencing.Registry().with_resources(files)
    validator = jsonschema.Draft202012Validator(schema(name), registry=registry)
    seen = 0
    for document in documents:
        validator.validate(document)
        seen += 1
    assert seen


def test_every_schema_is_one() -> None:
    """Each file of the folder is a schema, named after itself."""
    for path in FOLDER.iterdir():
        jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text()))
        assert schema(path.stem)["$id"] == path.name


def test_events_of_a_run(cli: Cli) -> None:
    """Every kind that a run has; the last line is the end, with the whole status."""
    lines = cli(
        "run", "--json", "--app", app_file(*ALL_REPORTS, FailUntil(1), Exit(3), max_retries=1)
    ).json_lines
    check("event", lines)
    assert {line["type"] for line in lines} == {
        "submitted",
        "log",
        "replica",
        "state",
        "progress",
        "metric",
        "result",
    }
    assert lines[0]["type"] == "submitted"
    assert lines[-1]["status"] is not None
    assert next(line["value"] for line in lines if line["type"] == "metric") == "NaN"


def test_a_run_that_does_not_stay(cli: Cli) -> None:
    """One document."""
    check("event", [cli("run", "-d", "--json", "--app", app_file(Exit(0))).json])


def test_a_dry_run(cli: Cli) -> None:
    """One document."""
    check("dryrun", [cli("run", "--dryrun", "--json", "--app", app_file(Exit(0))).json])


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["status", "{}"], "status"),
        (["wait", "{}"], "status"),
        (["top", "{}"], "top"),
        (["top", "-s", "local_cwd"], "top"),
        (["describe", "{}"], "describe"),
        (["list"], "list"),
        (["cancel", "{}"], "cancel"),
        (["delete", "{}"], "delete"),
        (["prune", "--max-count", "0"], "prune"),
        (["prune", "--max-count", "0", "--dryrun"], "prune"),
        (["runopts"], "runopts"),
        (["runopts", "local_cwd"], "runopts"),
        (["components"], "components"),
        (["builtins"], "components"),
        (["components", "utils.sh"], "component"),
        (["configure", "--print"], "configure"),
        (["configure"], "configure"),
        (["doctor"], "doctor"),
        (["log", "{}"], "event"),
        (["page", "{}", "--out", "page.html"], "page"),
    ],
    ids=str,
)
def test_every_command_prints_what_its_schema_says(cli: Cli, words: list[str], name: str) -> None:
    """Of an app with a result and a failed replica, where an app is asked about."""
    handle = submitted(*ALL_REPORTS, Exit(3))
    ended(handle)
    done = cli(*(word.format(handle) for word in words), "--json")
    check(name, done.json_lines)


def test_no_command_was_forgotten() -> None:
    """Each command is in the table above, or is `run`, or goes inside a replica and prints what that does."""
    table = test_every_command_prints_what_its_schema_says.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {row[0][0] for row in table} | {"run", "exec", "shell", "stacks"} == {*COMMANDS, "builtins"}


@pytest.mark.parametrize(
    "words",
    [
        ["status", "local_cwd://torchx/nobody"],
        ["status", "nonsense"],
        ["status"],
        ["status", "--bogus", "x"],
        ["runopts", "dokcer"],
        ["run", "--app", "missing.yaml"],
        ["run", "-s", "local_cwd", "-cfg", "nothing=1", "utils.echo"],
        ["nonsense"],
    ],
    ids=" ".join,
)
def test_errors_are_documents_too(cli: Cli, words: list[str]) -> None:
    """On stderr, so that stdout has results only."""
    done = cli(*words, "--json")
    assert done.out == ""
    check("error", [json.loads(done.err)])


def test_the_usage_of_what_runs(cli: Cli) -> None:
    """Every figure that is known of a replica that runs."""
    handle = submitted(Use(0.1, 20), Hold(), app_id="busy")
    with get_runner() as runner:
        wait_until(lambda: runner.usage(handle), 240)
    for words in (["top"], ["top", handle]):
        document = cli(*words, "--json").json
        check("top", [document])
        [app] = cast("dict[str, list[dict[str, list[object]]]]", document)["apps"]
        assert len(app["replicas"]) == 1
