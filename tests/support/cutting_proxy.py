"""Stands between a follower and an engine, and ends log streams early, as an engine under load does.

python cutting_proxy.py <our socket> <the engine's socket> <bytes until the cut> <how often>
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import StreamReader, StreamWriter
from contextlib import suppress


class CuttingProxy:
    """Passes everything on, but of some followed logs the first bytes only."""

    def __init__(self, engine: str, size: int, cuts: int) -> None:
        self._engine = engine
        self._size = size
        self._cuts = cuts

    async def serve(self, client: StreamReader, to_client: StreamWriter) -> None:
        """Pass one connection on."""
        request = await client.readuntil(b"\r\n\r\n")
        left = -1
        if b"follow=1" in request and self._cuts:
            self._cuts -= 1
            left = self._size
        engine, to_engine = await asyncio.open_unix_connection(self._engine)
        to_engine.write(request)
        upload = asyncio.ensure_future(_pass_on(client, to_engine, -1))
        await _pass_on(engine, to_client, left)
        upload.cancel()
        for writer in (to_client, to_engine):
            writer.close()


async def _pass_on(source: StreamReader, target: StreamWriter, left: int) -> None:
    with suppress(ConnectionError):  # either side may leave
        while left and (data := await source.read(1 << 16)):
            data = data[:left] if left > 0 else data
            left -= len(data) if left > 0 else 0
            target.write(data)
            await target.drain()


async def main(ours: str, engine: str, size: int, cuts: int) -> None:
    """Serve until killed."""
    proxy = CuttingProxy(engine, size, cuts)
    async with await asyncio.start_unix_server(proxy.serve, ours) as server:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
