"""Run an app with the installed core."""

import sys
from importlib.util import find_spec

import torchx_core
from torchx_core.page import AppPage

assert "site-packages" in torchx_core.__file__, torchx_core.__file__
assert find_spec("airflow") is None

app = torchx_core.AppDef(
    name="hello",
    roles=[torchx_core.Role(name="greeter", image="", entrypoint="echo", args=["hello"], num_replicas=2)],
)
with torchx_core.get_runner() as runner:
    handle = runner.run(app, "local_cwd")
    status = runner.wait(handle, timeout_s=240)
    assert status is not None
    assert status.state is torchx_core.AppState.SUCCEEDED, status
    for replica in range(2):
        assert list(runner.log_lines(handle, "greeter", replica)) == ["hello\n"]
    assert "<script>" in AppPage(runner, handle).html()  # the files that a page is made of are in the wheel
    runner.delete(handle)
print(f"torchx-core {torchx_core.__version__} works on Python {sys.version.split()[0]}")
