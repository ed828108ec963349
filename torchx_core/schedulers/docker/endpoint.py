"""Where the Docker engine is: the address, the TLS files and who said so.

The rules are those of the docker command line: a shell in which ``docker ps`` works needs nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import SplitResult, urlsplit

from torchx_core.errors import InvalidInputError, did_you_mean

__all__ = ["BY_DEFAULT", "DEFAULT_HOST", "Endpoint", "TlsFiles", "find_endpoint"]

DEFAULT_HOST = "unix:///var/run/docker.sock"
BY_DEFAULT = "the default"
"""The origin of an endpoint that nobody has named."""
_PLAIN_PORT, _TLS_PORT = 2375, 2376


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """What a TLS connection is made with; a file that is not there is None."""

    ca: str | None
    """Whom to trust; None for the system's authorities."""
    cert: str | None
    key: str | None
    verify: bool
    """Whether the engine must prove who it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A Docker engine as this process reaches it."""

    url: str
    """``unix:///path``, ``tcp://host:port`` or ``ssh://[user@]host[:port][/path of the socket there]``."""
    tls: TlsFiles | None = None
    origin: str
    """Who named it, for messages."""

    @property
    def parts(self) -> SplitResult:
        """The address, taken apart."""
        return urlsplit(self.url)

    def __str__(self) -> str:
        """Return ``address (who named it)``."""
        return f"{self.url} ({self.origin})"


def find_endpoint(given: str | None, environ: Mapping[str, str]) -> Endpoint:
    """Return the engine to talk to; reads files and connects to nothing.

    The first that is set names it: ``given``, ``DOCKER_HOST``, the context ``DOCKER_CONTEXT``, the current
    context of the Docker configuration, and last the default socket. ``DOCKER_TLS_VERIFY``, ``DOCKER_TLS``
    and ``DOCKER_CERT_PATH`` belong to an address, not to a context, which has its own.

    Args:
        given: ``docker_host`` of `torchx_core.get_runner`.
        environ: This process's environment.

    Raises:
        InvalidInputError: The address is not one, or there is no such context.
    """
    for url, origin in ((given, "docker_host"), (environ.get("DOCKER_HOST"), "DOCKER_HOST")):
        if url:
            return _endpoint(url, _tls_of(environ), origin)
    folder = _config_folder(environ)
    name = environ.get("DOCKER_CONTEXT") or _current_context(folder)
    if name in {"", "default"}:
        return _endpoint(DEFAULT_HOST, None, BY_DEFAULT)
    return _context(folder, name)


def _endpoint(url: str, tls: TlsFiles | None, origin: str) -> Endpoint:
    """Return the endpoint of an address, with its port filled in."""
    if "://" not in url:
        url = f"unix://{url}" if url.startswith("/") else f"tcp://{url}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as err:
        raise _invalid(url, origin, str(err)) from err
    match parts.scheme:
        case "unix" if parts.path and not parts.netloc:
            return Endpoint(url=f"unix://{parts.path}", origin=origin)
        case "ssh" if parts.hostname and parts.password is None:
            return Endpoint(url=url.rstrip("/"), origin=origin)
        case "ssh" if parts.password is not None:
            raise _invalid(
                _without_password(parts), origin, "a password does not belong into an address; use keys"
            )
        case "tcp" | "http" | "https" if parts.hostname and parts.username is None:
            if parts.scheme == "https" and tls is None:
                tls = TlsFiles(ca=None, cert=None, key=None, verify=True)
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            port = port or (_TLS_PORT if tls else _PLAIN_PORT)
            return Endpoint(url=f"tcp://{host}:{port}", tls=tls, origin=origin)
        case _:
            raise _invalid(
                _without_password(parts), origin, "expected unix:///path, tcp://host:port or ssh://user@host"
            )


def _without_password(parts: SplitResult) -> str:
    user, at, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}{at}{host}").geturl()


def _invalid(url: str, origin: str, problem: str) -> InvalidInputError:
    return InvalidInputError(f"not the address of a Docker engine: {url!r} ({origin}); {problem}")


def _tls_of(environ: Mapping[str, str]) -> TlsFiles | None:
    verify = bool(environ.get("DOCKER_TLS_VERIFY"))
    if not verify and not environ.get("DOCKER_TLS"):
        return None
    certificates = environ.get("DOCKER_CERT_PATH")
    return _tls_files(Path(certificates) if certificates else _config_folder(environ), verify=verify)


def _config_folder(environ: Mapping[str, str]) -> Path:
    named = environ.get("DOCKER_CONFIG")
    return Path(named) if named else Path(environ.get("HOME") or Path.home(), ".docker")


def _tls_files(folder: Path, *, verify: bool) -> TlsFiles:
    def there(name: str) -> str | None:
        path = folder / name
        return str(path) if path.exists() else None

    return TlsFiles(ca=there("ca.pem"), cert=there("cert.pem"), key=there("key.pem"), verify=verify)


def _current_context(folder: Path) -> str:
    return str(_read_json(folder / "config.json").get("currentContext") or "")


def _context(folder: Path, name: str) -> Endpoint:
    """Return the engine of a context, which lies in folders named after the hash of its name."""
    hashed = hashlib.sha256(name.encode()).hexdigest()
    meta = _read_json(folder / "contexts" / "meta" / hashed / "meta.json")
    docker = cast("dict[str, dict[str, object]]", meta.get("Endpoints") or {}).get("docker") or {}
    if not docker.get("Host"):
        known = _known_contexts(folder)
        raise InvalidInputError(
            f"no such Docker context: {name!r}; known: {', '.join(known)}{did_you_mean(name, known)}"
        )
    tls_folder = folder / "contexts" / "tls" / hashed / "docker"
    skip = bool(docker.get("SkipTLSVerify"))
    tls = _tls_files(tls_folder, verify=not skip) if skip or tls_folder.is_dir() else None
    return _endpoint(str(docker["Host"]), tls, f"context {name!r}")


def _known_contexts(folder: Path) -> list[str]:
    found = folder.glob("contexts/meta/*/meta.json")
    names = [_read_json(each).get("Name") for each in found]
    return sorted({"default", *(str(name) for name in names if name)})


def _read_json(path: Path) -> dict[str, object]:
    """Return the file's object; an absent file holds nothing."""
    try:
        loaded: object = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as err:
        raise InvalidInputError(f"cannot read the Docker configuration {path}: {err}") from err
    return cast("dict[str, object]", loaded) if isinstance(loaded, dict) else {}
