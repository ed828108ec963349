"""The program ``prefect-torchx``: what an operator does about apps that nobody looks after."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from prefect_torchx.reap import Assessment, Reaper
from torchx_core.errors import TorchXError
from torchx_core.launch import DEFAULT_SCHEDULER

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 1 when an app could not be judged or cancelled.

    Args:
        argv: The words after the program's name; None for those of this process.
    """
    arguments = _parser().parse_args(argv)
    return _reap(arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="prefect-torchx", description="Look after apps of Prefect flow runs."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    reap = commands.add_parser(
        "reap",
        help="cancel running apps whose flow run is over",
        description="Cancel running apps whose flow run is over, and show what was done with each app that "
        "belongs to a flow run. Prefect's server is the one of the active profile.",
    )
    reap.add_argument(
        "--scheduler",
        action="append",
        help=f"where to look; may be repeated (default: {DEFAULT_SCHEDULER})",
    )
    reap.add_argument("--session", action="append", help="which apps; may be repeated (default: torchx)")
    reap.add_argument(
        "--unknown",
        action="store_true",
        help="also cancel apps whose flow run the server does not know; make sure it is the right server",
    )
    reap.add_argument("--dry-run", action="store_true", help="show only what would be done")
    reap.add_argument("--json", action="store_true", help="one JSON object a line")
    return parser


def _reap(arguments: argparse.Namespace) -> int:
    import httpx

    from prefect_torchx._engine.server import ask_patiently, client_of_process

    places = [
        (scheduler, session)
        for scheduler in arguments.scheduler or [DEFAULT_SCHEDULER]
        for session in arguments.session or ["torchx"]
    ]
    with client_of_process(), Reaper() as reaper:
        try:
            went_well = [_reap_in(*place, reaper, arguments) for place in places]
        except httpx.HTTPError as err:
            server = ask_patiently(lambda client: client.api_url)
            went_well = [_complain(f"Prefect's server at {server}", repr(err))]
    return int(not all(went_well))


def _reap_in(scheduler: str, session: str, reaper: Reaper, arguments: argparse.Namespace) -> bool:
    """Judge the apps of one place and carry that out; return whether all went well."""
    try:
        assessments = list(reaper.judge(scheduler, session, unknown=arguments.unknown))
    except TorchXError as err:
        return _complain(f"{scheduler}, session {session}", str(err))
    went_well = [_carry_out(reaper, assessment, arguments) for assessment in assessments]
    return all(went_well)


def _carry_out(reaper: Reaper, assessment: Assessment, arguments: argparse.Namespace) -> bool:
    """Cancel the app if it is to be; show what was done; return whether that went well."""
    app, state, done = assessment.app, assessment.flow_run_state, "left alone"
    try:
        if assessment.orphaned and not arguments.dry_run:
            is_reaped = reaper.reap(app, state)
            done = "cancelled" if is_reaped else "ended or taken over meanwhile"
            if is_reaped:
                reaper.show_rest(app)
        elif assessment.orphaned:
            done = "would be cancelled"
    except TorchXError as err:
        return _complain(app.handle, str(err))
    if arguments.json:
        shown = {
            "app_handle": app.handle,
            "flow_run_id": app.flow_run_id,
            "flow_run_state": state,
            "orphaned": assessment.orphaned,
            "done": done,
        }
        sys.stdout.write(json.dumps(shown) + "\n")
    else:
        sys.stdout.write(f"{app.handle}  flow run {app.flow_run_id} is {state}: {done}\n")
    return True


def _complain(about: str, problem: str) -> bool:
    sys.stderr.write(f"prefect-torchx: {about}: {problem}\n")
    return False
