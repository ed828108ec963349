"""What a caller of the engine gets when the engine cannot read or write a container's files."""

from __future__ import annotations

from io import BytesIO
from typing import cast

import pytest
from docker.errors import APIError
from requests import Response

from torchx_core.schedulers.docker.answers import Refused
from torchx_core.schedulers.docker.client import Engine
from torchx_core.schedulers.docker.endpoint import Endpoint
from torchx_core.schedulers.docker.polling import reports
from torchx_core.schedulers.docker.sdk import Api

ENDPOINT = Endpoint(url="unix:///run/docker.sock", origin="test")


class Refusing:
    """An engine that refuses requests for files, with one answer after the other, and then serves them."""

    base_url, api_version, timeout = "http+docker://localhost", "1.41", 60.0

    def __init__(self, *reasons: str) -> None:
        """Refuse once for each reason."""
        self.reasons = list(reasons)

    def put_archive(self, *_: object) -> bool:
        """Refuse with the next reason, as the SDK tells it."""
        if not self.reasons:
            return True
        response = Response()
        response.status_code = 500
        raise APIError("500 Server Error", response, self.reasons.pop(0))

    def get(self, _url: str, *, timeout: float) -> Response:
        """Send no bytes when there is a reason not to, and some otherwise."""
        del timeout
        response = Response()
        response.status_code = 200
        response.raw = BytesIO(b"" if self.reasons and self.reasons.pop(0) else b"tar")
        return response


def _engine(api: Refusing) -> Engine:
    return Engine(cast("Api", api), ENDPOINT)


def test_files_that_are_out_of_reach_while_a_container_ends_are_asked_for_again() -> None:
    """Podman names a folder below ``/proc``, or sends nothing, until the container has ended."""
    ending = Refusing("stat /proc/4242/root: no such file or directory", "open /proc/4242/ns/mnt: gone")
    _engine(ending).put("app", "/", b"tar")
    assert ending.reasons == []
    assert _engine(Refusing("nothing")).ask(lambda: reports(["app"])) == b"tar"


@pytest.mark.parametrize("reason", ["write /f: no space left on device", "container rootfs is read-only"])
def test_a_write_that_cannot_succeed_is_refused_at_once(reason: str) -> None:
    """The reason of the engine reaches the caller after one request."""
    full = Refusing(reason, "a second request")
    with pytest.raises(Refused, match=reason):
        _engine(full).put("app", "/", b"tar")
    assert full.reasons == ["a second request"]
