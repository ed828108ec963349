"""Encryption of what Prefect's server is asked, as far as there is any."""

from __future__ import annotations

import socket
import ssl
from typing import Any

import certifi
from prefect.settings import PREFECT_API_SSL_CERT_FILE, PREFECT_API_TLS_INSECURE_SKIP_VERIFY
from typing_extensions import override

__all__ = ["TlsOnDemand", "is_encrypted"]


def is_encrypted(api_url: str | None) -> bool:
    """Return whether requests to the API are; None is a server that Prefect starts for this process."""
    return api_url is not None and not api_url.startswith("http://")


class TlsOnDemand(ssl.SSLContext):
    """Learns whom to trust when the first connection is encrypted: should an API at http:// lead elsewhere.

    To read the certificates of all authorities takes longer than most tasks: 25 ms for each client. Prefect
    does so for every address.
    """

    @override
    def wrap_socket(self, sock: socket.socket, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Encrypt the connection as Prefect's settings say."""
        if PREFECT_API_TLS_INSECURE_SKIP_VERIFY.value():
            self.check_hostname = False
            self.verify_mode = ssl.CERT_NONE
        elif not self.cert_store_stats()["x509_ca"]:
            self.load_verify_locations(cafile=PREFECT_API_SSL_CERT_FILE.value() or certifi.where())
        return super().wrap_socket(sock, *args, **options)
