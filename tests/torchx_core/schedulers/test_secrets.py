"""Secrets stay out of what people see."""

from __future__ import annotations

import pytest

from torchx_core.schedulers.secrets import looks_secret, mask_env


@pytest.mark.parametrize("name", ["WANDB_API_KEY", "aws_secret_access_key", "DB_PASSWORD", "GITHUB_TOKEN"])
def test_names_of_secrets_are_recognised(name: str) -> None:
    """In either case."""
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["PATH", "KEYBOARD", "MONKEY", "HOME", "PASS_RATE"])
def test_ordinary_names_are_shown(name: str) -> None:
    """A mask over everything would tell nothing."""
    assert not looks_secret(name)


def test_only_values_are_masked() -> None:
    """Which secrets there are may be seen."""
    assert mask_env({"HOME": "/root", "HF_TOKEN": "hf_x"}) == {"HOME": "/root", "HF_TOKEN": "***"}
