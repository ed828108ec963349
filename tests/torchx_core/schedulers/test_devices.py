from __future__ import annotations

import pytest

from torchx_core.schedulers.devices import get_device_mounts
from torchx_core.specs import DeviceMount


def test_each_device_has_a_file() -> None:
    """So many of each kind, counted from 0."""
    files = ["/dev/infiniband/uverbs0", "/dev/infiniband/uverbs1", "/dev/neuron0"]
    found = get_device_mounts({"vpc.amazonaws.com/efa": 2, "aws.amazon.com/neurondevice": 1})
    assert found == [DeviceMount(file, file) for file in files]


def test_an_unknown_device_is_left_out_with_a_warning() -> None:
    """The warning has the names that are known."""
    with pytest.warns(UserWarning, match="'abacus'.*efa"):
        assert get_device_mounts({"abacus": 1}) == []
