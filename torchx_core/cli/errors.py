"""Says what went wrong, in one line and an exit code; tracebacks are for ``--debug``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from torchx_core.cli.exit_codes import ExitCode, code_of_error, code_of_signal
from torchx_core.cli.json_output import plain
from torchx_core.cli.output import Output
from torchx_core.cli.styles import BAD
from torchx_core.errors import ComponentHelpRequested, TorchXError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["explain"]

_SIGINT = 2


def explain(error: BaseException, output: Output) -> int:
    """Tell the user about the error and return the exit code that goes with it."""
    if isinstance(error, ComponentHelpRequested):
        output.lines([error.usage])
        return ExitCode.SUCCESS
    if output.debug:
        _show_traceback(error, output)
    if isinstance(error, click.Abort):
        interrupted = isinstance(error.__cause__ or error.__context__, KeyboardInterrupt)
        return code_of_signal(_SIGINT) if interrupted else _aborted(output)
    if isinstance(error, click.ClickException):
        return _explain_usage(error, output)
    if isinstance(error, TorchXError):
        _say(output, str(error), error.to_json())
        return code_of_error(error)
    if isinstance(error, OSError):  # of stdout or stdin: what schedulers run into, they translate
        message = f"cannot read or write: {error.strerror or error}"
        _say(output, message, {"type": "OSError", "message": message})
        return ExitCode.SCHEDULER_FAILED
    return _explain_bug(error, output)


def _aborted(output: Output) -> int:
    output.remark("aborted")
    return ExitCode.FAILURE


def _explain_usage(error: click.ClickException, output: Output) -> int:
    if isinstance(error, click.UsageError) and error.ctx is not None and not output.json:
        output.remark(f"{error.ctx.get_usage()}\nTry '{error.ctx.command_path} --help' for help.\n")
    message = error.format_message()
    _say(output, message, {"type": "UsageError", "message": message})
    return ExitCode.BAD_INPUT


def _explain_bug(error: BaseException, output: Output) -> int:
    kind = type(error).__name__
    message = f"unexpected {kind}: {error}" + ("" if output.debug else "; --debug shows where")
    _say(output, message, {"type": kind, "message": message})
    return ExitCode.BUG


def _say(output: Output, message: str, document: Mapping[str, object]) -> None:
    if output.json:
        import json

        output.remark(json.dumps({"error": plain(document)}))
    else:
        output.remark(f"{output.paint_remark('error:', BAD)} {message}")


def _show_traceback(error: BaseException, output: Output) -> None:
    import traceback

    output.remark("".join(traceback.format_exception(error)).rstrip())
