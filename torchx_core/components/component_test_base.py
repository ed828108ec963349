"""A base of tests of components, as TorchX has one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Protocol, cast
from unittest import TestCase

from torchx_core.components.find import find_component
from torchx_core.errors import WaitTimeoutError
from torchx_core.schedulers.removing import remove_tree
from torchx_core.specs import AppDef, AppHandle, AppStatus

__all__ = ["ComponentTestCase"]


class _Runner(Protocol):
    def run(self, app: AppDef, scheduler: str) -> AppHandle: ...
    def wait(self, app_handle: AppHandle, *, timeout_s: float) -> AppStatus | None: ...
    def status(self, app_handle: AppHandle) -> AppStatus | None: ...
    def close(self) -> None: ...


class ComponentTestCase(TestCase):
    """Checks components, and runs their apps; `test_dir` is an empty directory of each test's own."""

    def setUp(self) -> None:
        """Make the directory."""
        self.test_dir: str = tempfile.mkdtemp("torchx_component_test")

    def tearDown(self) -> None:
        """Remove it."""
        remove_tree(self.test_dir)  # tries again: an app that ends just now makes its last file

    def validate(self, module: ModuleType, function_name: str) -> None:
        """See that a function of the module can be used as a component.

        Raises:
            ComponentNotFoundException: It has no such function.
            ComponentValidationException: The function cannot be used as it is written.
        """
        assert find_component(f"{module.__file__}:{function_name}").usage()

    def run_component(
        self,
        component: Callable[..., AppDef],
        args: Mapping[str, object] | None = None,
        scheduler_params: Mapping[str, object] | None = None,
        scheduler: str = "local_cwd",
        interval: float = 0.1,
        timeout: float = 1,
    ) -> AppStatus | None:
        """Run the component's app, and return its status when it is terminal or the time is over.

        Args:
            component: Makes the app.
            args: What it is called with.
            scheduler_params: What schedulers are made with.
            scheduler: Where the app runs.
            interval: Accepted for TorchX's sake and not needed.
            timeout: Seconds; the app goes on after them.
        """
        del interval
        # by name: the runner knows components, not they it
        get_runner = import_module("torchx_core.runner").get_runner
        runner = cast(_Runner, get_runner(**(scheduler_params or {})))
        try:
            handle = runner.run(component(**(args or {})), scheduler)
            return _waited(runner, handle, timeout)
        finally:
            runner.close()


def _waited(runner: _Runner, handle: AppHandle, timeout_s: float) -> AppStatus | None:
    try:
        return runner.wait(handle, timeout_s=timeout_s)
    except WaitTimeoutError:
        return runner.status(handle)
