"""A certificate authority of the tests' own, and what an engine and its client need of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

__all__ = ["make_certificates"]


def make_certificates(folder: Path, address: str) -> None:
    """Make ``ca.pem``, ``server-cert.pem`` for the address, ``cert.pem`` for a client, and their keys."""
    usage = "-addext keyUsage=critical,keyCertSign,cRLSign"
    _openssl(folder, f"req -x509 {_NEW_KEY} {usage} -keyout ca-key.pem -out ca.pem -subj /CN=authority")
    _certificate(folder, "server-", "extendedKeyUsage=serverAuth", f"subjectAltName=IP:{address}")
    _certificate(folder, "", "extendedKeyUsage=clientAuth")


_NEW_KEY = "-newkey rsa:2048 -nodes"
_SIGN = "x509 -req -CA ca.pem -CAkey ca-key.pem -CAcreateserial -extfile extensions"


def _certificate(folder: Path, prefix: str, *extensions: str) -> None:
    _openssl(folder, f"req {_NEW_KEY} -keyout {prefix}key.pem -out request.pem -subj /CN=test")
    # Python 3.13 takes no certificate without these.
    identifiers = ("subjectKeyIdentifier=hash", "authorityKeyIdentifier=keyid")
    (folder / "extensions").write_text("\n".join([*identifiers, *extensions]))
    _openssl(folder, f"{_SIGN} -in request.pem -out {prefix}cert.pem")


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)
