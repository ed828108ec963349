"""Stands between one trial's flow runs and Prefect's server, and does to their requests what networks do."""

from __future__ import annotations

import asyncio
import threading
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from urllib.parse import urlsplit

__all__ = ["ApiProxy"]

CUT = (b"POST /api/logs/ ", b"POST /api/artifacts/ ", b"PATCH /api/artifacts/")
"""Requests whose answers may get lost: Prefect's own code does not make these."""


class ApiProxy:
    """Passes everything on, until it is told otherwise."""

    def __init__(self, server: str) -> None:
        """Listen on a free port, in a thread of its own."""
        parts = urlsplit(server)
        assert parts.hostname is not None
        self._server = parts.hostname, parts.port or 80
        self.delay_s = 0.0
        """How long each request waits."""
        self.cuts = 0
        """How many more answers to withhold, of requests that the server has served."""
        self.away = False
        """While set, every connection is broken off."""
        self._open: set[StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._port = 0
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._thread.start()
        self._listening.wait()
        self.url = f"http://127.0.0.1:{self._port}{parts.path}"

    def go_away(self) -> None:
        """Break off what is open, and everything that comes."""
        self.away = True
        self._loop.call_soon_threadsafe(self._abort)

    def close(self) -> None:
        """Stop."""
        self.go_away()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self._port = server.sockets[0].getsockname()[1]
        self._listening.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    def _abort(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, client: StreamReader, to_client: StreamWriter) -> None:
        if self.away:
            to_client.transport.abort()
            return
        server, to_server = await asyncio.open_connection(*self._server)
        ends = {to_client, to_server}
        self._open |= ends
        cut = asyncio.Event()
        try:
            await asyncio.wait(
                [
                    asyncio.ensure_future(self._upload(client, to_server, cut)),
                    asyncio.ensure_future(self._download(server, to_client, cut)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            self._open -= ends
            to_server.close()
            (to_client.transport.abort if cut.is_set() else to_client.close)()

    async def _upload(self, client: StreamReader, to_server: StreamWriter, cut: asyncio.Event) -> None:
        with suppress(ConnectionError):  # either side may leave
            while data := await client.read(1 << 16):
                await asyncio.sleep(self.delay_s)
                if self.cuts and data.startswith(CUT):
                    self.cuts -= 1
                    cut.set()
                to_server.write(data)
                await to_server.drain()

    async def _download(self, server: StreamReader, to_client: StreamWriter, cut: asyncio.Event) -> None:
        with suppress(ConnectionError):
            while (data := await server.read(1 << 16)) and not cut.is_set():
                to_client.write(data)
                await to_client.drain()
