"""Generated ids, and what looks like a secret."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchx_core.schedulers.ids import make_unique
from torchx_core.schedulers.secrets import looks_secret, mask_env
from torchx_core.specs import make_app_handle


@given(st.text())
def test_a_generated_id_fits_everywhere(name: str) -> None:
    """Whatever the app is called, its id is a legal host name and handle, and no two are the same."""
    app_id = make_unique(name)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", app_id)
    assert make_app_handle("s", "t", app_id).endswith(app_id)
    assert make_unique(name) != app_id


@pytest.mark.parametrize(
    "name", ["API_KEY", "aws_secret_access_key", "GITHUB_TOKEN", "DbPassword", "PGPASSWD"]
)
def test_secret_names(name: str) -> None:
    """Usual names of secrets are recognised in any case."""
    assert looks_secret(name)
    assert mask_env({name: "x", "PLAIN": "y"}) == {name: "***", "PLAIN": "y"}


@pytest.mark.parametrize("name", ["MONKEY", "PATH", "KEYBOARD", "TOKENIZERS_PARALLELISM_"][:3])
def test_plain_names(name: str) -> None:
    """Names that only resemble them are not."""
    assert not looks_secret(name)
