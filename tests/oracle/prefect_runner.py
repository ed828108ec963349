"""What Prefect's runner, which `serve` and process workers have, does to the process of a cancelled flow run.

It listens on the loopback. The process connects when its flow begins, so it can be told why it ends before
the signal comes that ends it. Who has not connected yet, or does not answer in time, gets the signal alone.

Source: ``prefect.runner``, 3.7.7: ``_control_channel``, ``_cancellation_manager``, ``_process_manager``.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping

__all__ = ["KILL_AFTER_S", "Channel"]

KILL_AFTER_S = 30.0
"""How long the runner waits after SIGTERM before it kills."""
_ANSWER_S = 1.0
"""How long it waits for the process's answer."""


class Channel:
    """The way to one process."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0)
        self._token = secrets.token_hex(16)

    @property
    def environment(self) -> Mapping[str, str]:
        """What the process finds the way by."""
        port = self._listener.getsockname()[1]
        return {"PREFECT__CONTROL_PORT": str(port), "PREFECT__CONTROL_TOKEN": self._token}

    def cancel(self) -> bool:
        """Tell the process that its flow run is cancelled; return whether it has taken note."""
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return False
        with connection:
            connection.settimeout(_ANSWER_S)
            try:
                with connection.makefile("rb") as file:
                    if file.readline().decode().strip() != self._token:
                        return False
                    connection.sendall(b"c")
                    return file.read(1) == b"a"
            except OSError:
                return False

    def close(self) -> None:
        """Listen no more."""
        self._listener.close()
