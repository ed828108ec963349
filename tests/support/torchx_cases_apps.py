"""How apps of the working directory's scheduler run, and what they print."""

# ruff: noqa: D103  # the name of each case says what it is

from __future__ import annotations

from typing import Any

from torchx_case import LOCAL, api, app, case, ended, script, specs


@case
def lines_are_whole_and_keep_their_white_space(runner: Any) -> Any:
    return ended(runner, script("printf ' one \\n\\ttwo\\n\\nfour'"))


@case
def carriage_returns_are_kept(runner: Any) -> Any:
    return ended(runner, script("printf '10%%\\r20%%\\r\\n'"))


@case
def bytes_that_are_no_text_are_replaced(runner: Any) -> Any:
    return ended(runner, script("printf '\\002\\305\\330\\n'"))


@case
def lines_are_filtered(runner: Any) -> Any:
    return ended(runner, script("echo one; echo two; echo three"), regex="t.*e")


@case
def stdout_alone(runner: Any) -> Any:
    return ended(runner, script("echo out; echo err >&2"), streams=api.Stream.STDOUT)


@case
def stderr_alone(runner: Any) -> Any:
    return ended(runner, script("echo out; echo err >&2"), streams=api.Stream.STDERR)


@case
def both_streams(runner: Any) -> Any:
    return sorted(ended(runner, script("echo out; echo err >&2"), streams=api.Stream.COMBINED))


@case
def one_replica_of_several(runner: Any) -> Any:
    return ended(runner, app("echo", specs.macros.replica_id, num_replicas=3), k=2)


@case
def a_log_can_be_read_twice(runner: Any) -> Any:
    handle = runner.run(app("echo", "hello"), LOCAL)
    runner.wait(handle, 0.1)
    return [list(runner.log_lines(handle, "r")) for _ in range(2)]


@case
def following_ends_with_the_app(runner: Any) -> Any:
    handle = runner.run(script("echo one; sleep 0.5; echo two"), LOCAL)
    lines = list(runner.log_lines(handle, "r", should_tail=True, streams=api.Stream.STDOUT))
    return lines, str(runner.status(handle).state)


@case
def success(runner: Any) -> Any:
    return str(runner.wait(runner.run(app("true"), LOCAL), 0.1).state)


@case
def failure(runner: Any) -> Any:
    return str(runner.wait(runner.run(app("false"), LOCAL), 0.1).state)


@case
def the_state_right_after_a_submit(runner: Any) -> Any:
    """Tried again on a host that is too busy to begin an app while its status waits for that."""
    told = ("", "")
    for _ in range(5):
        handle = runner.run(app("sleep", "60"), LOCAL)
        state = str(runner.status(handle).state)
        runner.cancel(handle)
        told = state, str(runner.wait(handle, 0.1).state)
        if state == "RUNNING":
            break
    return told


@case
def cancelling_twice(runner: Any) -> Any:
    handle = runner.run(app("sleep", "60"), LOCAL)
    runner.cancel(handle)
    runner.wait(handle, 0.1)
    runner.cancel(handle)
    return str(runner.status(handle).state)


@case
def stopping_is_cancelling(runner: Any) -> Any:
    handle = runner.run(app("sleep", "60"), LOCAL)
    runner.stop(handle)
    return str(runner.wait(handle, 0.1).state)
