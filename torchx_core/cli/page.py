"""``torchx-core page``."""

from __future__ import annotations

import signal
import tempfile
import threading
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager
from html import escape
from pathlib import Path

import click

from torchx_core import get_runner
from torchx_core.cli.json_output import handle_fields
from torchx_core.cli.options import cli_command, handle_argument
from torchx_core.cli.output import Output
from torchx_core.errors import InvalidInputError
from torchx_core.page import AppPage, PageServer

__all__ = ["command"]

_LOOK_S = 0.2
"""How soon a signal is noticed."""


@cli_command("page")
@handle_argument()
@click.option(
    "--out", metavar="FILE", help="Write the page as it is now into a file, and serve nothing; - is stdout."
)
@click.option("--open", "open_it", is_flag=True, help="Open it in the browser.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Where to serve it; default: a free port."
)
def command(output: Output, app_handle: str, out: str | None, *, open_it: bool, port: int) -> None:
    """Show an app in a browser: what was run, its replicas, curves and log, and why it failed.

    The page is served to this host alone, at an address that nobody else knows, and stays up to date until
    Ctrl-C or SIGTERM ends the serving. With ``--out`` it is one file, which can be kept and sent.
    """
    with get_runner() as runner:
        page = AppPage(runner, app_handle)
        if out is None:
            _serve(output, app_handle, page, port, open_it=open_it)
        else:
            _write(output, app_handle, page, out, open_it=open_it)


def _write(output: Output, app_handle: str, page: AppPage, out: str, *, open_it: bool) -> None:
    html = page.html()
    if out == "-":
        output.draw(html)
        return
    file = Path(out).absolute()
    try:
        file.write_text(html, encoding="utf-8")
    except OSError as err:
        raise InvalidInputError(f"cannot write the page to {out!r}: {err.strerror or err}") from err
    _tell(output, app_handle, str(file), "file")
    if open_it:
        webbrowser.open(file.as_uri())


def _serve(output: Output, app_handle: str, page: AppPage, port: int, *, open_it: bool) -> None:
    try:
        server = PageServer(page, port)
    except OSError as err:
        raise InvalidInputError(f"cannot serve at port {port}: {err.strerror or err}") from err
    with server, _signals() as came, _signpost(server.url) as signpost:
        _tell(output, app_handle, server.url, "url")
        output.hint("Ctrl-C ends the serving; the app goes on")
        if open_it:
            webbrowser.open(signpost.as_uri())
        pause = threading.Event()
        while not came:
            pause.wait(_LOOK_S)


def _tell(output: Output, app_handle: str, place: str, kind: str) -> None:
    if output.json:
        output.document({**handle_fields(app_handle), kind: place})
    else:
        output.lines([place])


@contextmanager
def _signals() -> Generator[list[int], None, None]:
    """Note the signals that end the serving; one that was ignored when we started stays ignored."""
    came: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    heeded = [number for number in numbers if before[number] is not signal.SIG_IGN]
    for number in heeded:
        signal.signal(number, lambda which, _: came.append(which))
    try:
        yield came
    finally:
        for number in heeded:
            signal.signal(number, before[number])


@contextmanager
def _signpost(url: str) -> Generator[Path, None, None]:
    """Make a file that leads to the address: a browser's command line, which everybody can list, names it."""
    with tempfile.TemporaryDirectory(prefix="torchx-page-") as folder:  # of mode 0700
        file = Path(folder) / "page.html"
        file.write_text(f'<meta http-equiv="refresh" content="0; url={escape(url)}">', encoding="utf-8")
        yield file
