"""`status`, `list`, `describe`, `cancel`, `delete`, `prune`: what is known of apps, and forgetting them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest
from cli_apps import Cli, app_file, ended, state_of, submitted

from torchx_core import AppDef, get_runner
from torchx_core.testing import Exit, Hold, Print, ReportResult, wait_until


def test_status_shows_every_replica_and_why_it_failed(cli: Cli) -> None:
    """State, exit code, logs and result, without anything that only a terminal understands."""
    handle = submitted(ReportResult({"acc": 0.5}), Exit(3))
    ended(handle)
    done = cli("status", handle)
    assert done.code == 0
    head, reason, *_ = lines = done.out.splitlines()
    assert head == f"{handle}  FAILED"
    assert reason.startswith("replica main/0 failed with exit code 3")
    assert 'result: {"acc": 0.5}' in lines
    assert lines[-1].split()[:4] == ["main/0", "FAILED", "1", "3"]
    assert "\x1b" not in done.out


def test_status_shows_only_the_roles_asked_for(cli: Cli) -> None:
    """A role that the app does not have is refused."""
    handle = submitted(Print("x"))
    ended(handle)
    assert "main/0" in cli("status", handle, "--roles", "main").out
    refused = cli("status", handle, "--roles", "mainn")
    assert refused.code == 3
    assert "did you mean 'main'?" in refused.err


def test_list_shows_the_newest_last(cli: Cli) -> None:
    """Of all schedulers, or of one."""
    for app_id in ("first", "second"):
        ended(submitted(Print("x"), app_id=app_id))
    done = cli("list", "-s", "local_cwd")
    assert [line.split()[0].rpartition("/")[2] for line in done.out.splitlines()[1:]] == ["first", "second"]
    assert [line.split()[0] for line in cli("list").out.splitlines()[1:]] == [
        "local_cwd://torchx/first",
        "local_cwd://torchx/second",
    ]


def test_list_asks_the_scheduler_that_the_configuration_names(cli: Cli, work: Path) -> None:
    """Unless another is asked for."""
    ended(submitted(Print("x")))
    (work / ".torchxconfig").write_text("[cli:list]\nscheduler = local_dir\n")
    assert cli("list")[:2] == (0, "")
    assert "local_cwd://torchx/x" in cli("list", "-s", "local_cwd").out


def test_list_shows_only_the_states_asked_for(cli: Cli) -> None:
    """Spelled in any case."""
    ended(submitted(Exit(1), app_id="bad"))
    ended(submitted(Exit(0), app_id="good"))
    out = cli("list", "-s", "local_cwd", "--state", "failed").out
    assert "bad" in out
    assert "good" not in out


def test_list_shows_the_newest_of_many(cli: Cli) -> None:
    """Of those that are in the states asked for."""
    for app_id, step in (("a", Exit(0)), ("b", Exit(0)), ("c", Exit(1))):
        ended(submitted(step, app_id=app_id))
    listed = cast("dict[str, list[dict[str, object]]]", cli("list", "-n", "2", "--json").json)
    assert [app["app_id"] for app in listed["apps"]] == ["b", "c"]
    newest = cli("list", "--state", "SUCCEEDED", "--limit", "1").out
    assert [line.split()[0] for line in newest.splitlines()[1:]] == ["local_cwd://torchx/b"]


def test_list_shows_the_apps_of_all_sessions(cli: Cli) -> None:
    """Of every scheduler, or of the one that is named."""
    ended(submitted(Exit(0), app_id="a"))
    cli("run", "--session", "other", "--app", app_file(Exit(0)), "--app-id", "b")
    for words in ((), ("-s", "local_cwd")):
        out = cli("list", "--all-sessions", *words).out
        assert [line.split()[0] for line in out.splitlines()[1:]] == [
            "local_cwd://torchx/a",
            "local_cwd://other/b",
        ]
    refused = cli("list", "--all-sessions", "--session", "other")
    assert (refused.code, "--session excludes --all-sessions" in refused.err) == (2, True)


def test_watch_looks_once_where_nothing_can_be_redrawn(cli: Cli) -> None:
    """In a pipe, or as JSON."""
    ended(submitted(Exit(0), app_id="a"))
    assert cli("list", "--watch", "--json") == cli("list", "--json")
    assert "local_cwd://torchx/a" in cli("list", "--watch").out


def test_list_of_an_empty_session_is_empty(cli: Cli) -> None:
    """Nothing on stdout, so that a script can count lines."""
    assert cli("list", "-s", "local_cwd", "--session", "other")[:2] == (0, "")


def test_describe_shows_an_app_without_its_secrets(cli: Cli, work: Path) -> None:
    """As text they are masked; as JSON the app is exact, and runs again."""
    app = "name: a\nroles: [{name: r, image: '', entrypoint: 'true', env: {API_TOKEN: hidden}}]"
    (work / "app.yaml").write_text(app)
    cli("run", "--app", "app.yaml", "--app-id", "x")
    text, exact = cli("describe", "local_cwd://torchx/x"), cli("describe", "local_cwd://torchx/x", "--json")
    assert "API_TOKEN: '***'" in text.out
    assert "hidden" not in text.out
    assert AppDef.from_json(exact.out).roles[0].env.get("API_TOKEN") == "hidden"


def test_a_native_description_is_the_backends(cli: Cli) -> None:
    """A document of the scheduler's own form; for a local app, what is run."""
    handle = submitted(Exit(0))
    ended(handle)
    native = cli("describe", "--native", handle).json
    assert isinstance(native, dict)
    assert native["app_id"] == "x"


def test_cancel_says_what_it_came_to(cli: Cli) -> None:
    """The reason is recorded, and cancelling again does nothing."""
    handle = submitted(Hold())
    assert (
        cli("cancel", handle, "--reason", "enough", "--grace", "1s").out == f"{handle} is being cancelled\n"
    )
    assert ended(handle).msg == "enough"
    assert cli("cancel", handle).out == f"{handle} is already terminal\n"


def test_cancel_all_ends_what_runs_in_the_session(cli: Cli) -> None:
    """And nothing else; there is no question where nobody can answer."""
    ended(submitted(Exit(0), app_id="over"))
    running = [submitted(Hold(), app_id=app_id) for app_id in ("a", "b")]
    cli("run", "-d", "--session", "other", "--app", app_file(Hold()), "--app-id", "c")
    done = cli("cancel", "--all", "--reason", "home time")
    assert done == (0, "".join(f"{handle} is being cancelled\n" for handle in running), "")
    assert [ended(handle).msg for handle in running] == ["home time"] * 2
    other = "local_cwd://other/c"
    assert state_of(other) in ("SUBMITTED", "PENDING", "RUNNING")
    assert cli("cancel", "--all") == (0, "", "no app to cancel\n")
    assert [line["handle"] for line in cli("cancel", "--all", "--session", "other", "--json").json_lines] == [
        other
    ]
    ended(other)


def test_cancel_all_says_what_it_could_not_cancel(cli: Cli, work: Path) -> None:
    """The others are cancelled all the same."""
    torn, whole = submitted(Exit(0), app_id="a"), submitted(Hold(), app_id="b")
    ended(torn)
    (work.parent / "state" / "local_cwd" / "torchx" / "a" / "spec.json").write_text("torn")
    done = cli("cancel", "--all")
    assert (done.code, done.out) == (4, f"{whole} is being cancelled\n")
    assert f"{torn} was not cancelled: " in done.err
    ended(whole)


def test_cancel_wants_names_or_all(cli: Cli) -> None:
    """Not both, and not neither."""
    for words in ((), ("local_cwd://torchx/x", "--all")):
        done = cli("cancel", *words)
        assert (done.code, "name the apps to cancel, or give --all" in done.err) == (2, True)


def test_cancel_records_who_did_it(cli: Cli) -> None:
    """When no other reason is given."""
    handle = submitted(Hold())
    cli("cancel", handle)
    assert ended(handle).msg.startswith("cancelled on the command line by ")


def test_delete_forgets_an_app(cli: Cli) -> None:
    """Without a question where nobody can answer."""
    handles = [submitted(Exit(0), app_id=name) for name in ("a", "b")]
    for handle in handles:
        ended(handle)
    assert cli("delete", *handles).code == 0
    assert [state_of(handle) for handle in handles] == ["gone", "gone"]


def test_delete_deletes_all_or_none(cli: Cli) -> None:
    """An app that still runs, or does not exist, keeps the others too."""
    over, running = submitted(Exit(0), app_id="over"), submitted(Hold(), app_id="running")
    ended(over)
    assert cli("delete", over, running).code == 2
    assert cli("delete", over, "local_cwd://torchx/nobody").code == 3
    assert state_of(over) == "SUCCEEDED"


def test_delete_removes_a_corrupt_record(cli: Cli, work: Path) -> None:
    """Which no other command can do anything with."""
    handle = submitted(Exit(0))
    ended(handle)
    spec = work.parent / "state" / "local_cwd" / "torchx" / "x" / "spec.json"
    spec.write_text("torn")
    assert cli("status", handle).code == 5
    assert "UNKNOWN" in cli("list", "-s", "local_cwd").out
    wait_until(lambda: cli("delete", handle).code == 0, 240)  # its supervisor may still be there for a moment
    assert cli("status", handle).code == 3


def test_prune_keeps_within_the_bounds(cli: Cli) -> None:
    """A dry run names the same apps and keeps them; what still runs is never touched."""
    for app_id in ("a", "b", "c"):
        ended(submitted(Exit(0), app_id=app_id))
    running = submitted(Hold(), app_id="running")
    bounds = ("prune", "-s", "local_cwd", "--max-count", "2")
    assert cli(*bounds, "--dryrun").out.splitlines() == [
        "local_cwd://torchx/a would be deleted",
        "local_cwd://torchx/b would be deleted",
    ]
    assert cli(*bounds).out.splitlines() == ["local_cwd://torchx/a deleted", "local_cwd://torchx/b deleted"]
    assert cli("prune", "--max-bytes", "0").out.splitlines()[-1] == "local_cwd://torchx/c deleted"
    assert state_of(running) in ("SUBMITTED", "RUNNING")


@pytest.mark.parametrize("bound", [["--max-age", "1h"], ["--max-bytes", "1GB"], ["--max-count", "9"]])
def test_prune_deletes_nothing_that_is_within_bounds(cli: Cli, bound: list[str]) -> None:
    """Each bound by itself."""
    handle = submitted(Exit(0))
    ended(handle)
    assert cli("prune", *bound)[:2] == (0, "")
    assert state_of(handle) == "SUCCEEDED"


def test_prune_forgets_images_without_forgetting_apps(cli: Cli, work: Path) -> None:
    """What a killed build left, and what nobody has used for long, may be most of the disk."""
    old = work.parent / "state" / "local_dir" / ".images" / ".new-1"
    old.mkdir(parents=True)
    os.utime(old, (0, 0))
    assert cli("prune", "-s", "local_dir", "--max-count", "9", "--dryrun").code == 0
    assert old.exists()
    assert cli("prune", "-s", "local_dir", "--max-count", "9").code == 0
    assert not old.exists()


def test_a_session_is_a_world_of_its_own(cli: Cli) -> None:
    """`list` and `prune` of one do not see another's apps."""
    with get_runner("mine") as runner:
        app = AppDef.from_yaml("name: a\nroles: [{name: r, image: '', entrypoint: 'true'}]")
        runner.wait(runner.run(app, "local_cwd", app_id="x"))
    assert "local_cwd://mine/x" in cli("list", "--session", "mine").out
    assert cli("prune", "--max-count", "0")[:2] == (0, "")
    assert state_of("local_cwd://mine/x") == "SUCCEEDED"


def test_prune_of_all_sessions(cli: Cli) -> None:
    """Each keeps its own newest; what runs is never touched, and a dry run deletes nothing."""
    app = AppDef.from_yaml("name: a\nroles: [{name: r, image: '', entrypoint: 'true'}]")
    for session in ("mine", "yours"):
        with get_runner(session) as runner:
            for app_id in ("old", "new"):
                runner.wait(runner.run(app, "local_cwd", app_id=app_id))
    running = submitted(Hold(), app_id="running")
    bounds = ("prune", "--all-sessions", "--max-count", "1")
    old = ["local_cwd://mine/old", "local_cwd://yours/old"]
    assert cli(*bounds, "--dryrun").out.splitlines() == [f"{handle} would be deleted" for handle in old]
    assert cli(*bounds, "-s", "local_cwd").out.splitlines() == [f"{handle} deleted" for handle in old]
    assert {state_of(f"local_cwd://{session}/new") for session in ("mine", "yours")} == {"SUCCEEDED"}
    assert state_of(running) in ("SUBMITTED", "RUNNING")
    assert cli(*bounds, "--session", "mine").code == 2
