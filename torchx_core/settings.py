"""The names of TorchX's environment variables, where TorchX has them, and of ours that are like them."""

from __future__ import annotations

from typing import Final

__all__ = [
    "ENV_TORCHXCONFIG",
    "ENV_TORCHX_IMAGE",
    "ENV_TORCHX_INTERNAL_SESSION_ID",
    "ENV_TORCHX_JOB_ID",
    "ENV_TORCHX_METRIC_SINKS",
    "ENV_TORCHX_PARENT_RUN_ID",
    "ENV_TORCHX_REPLICA",
    "ENV_TORCHX_ROLE",
    "ENV_TORCHX_TRACKERS",
    "ENV_TRACE_CONTEXT",
]

ENV_TORCHXCONFIG: Final = "TORCHXCONFIG"
"""Read by the configuration: the one file that counts."""
ENV_TORCHX_IMAGE: Final = "TORCHX_IMAGE"
"""Set for replicas in containers: their image."""
ENV_TORCHX_INTERNAL_SESSION_ID: Final = "TORCHX_INTERNAL_SESSION_ID"
"""Set for every replica: the session's name."""
ENV_TORCHX_JOB_ID: Final = "TORCHX_JOB_ID"
"""Set for every replica: the app's handle."""
ENV_TORCHX_METRIC_SINKS: Final = "TORCHX_METRIC_SINKS"
"""Read at submit and by `torchx_core.runtime`: where metrics go besides."""
ENV_TORCHX_PARENT_RUN_ID: Final = "TORCHX_PARENT_RUN_ID"
"""Set for every replica that has a parent: the ``parent_run_id`` of the submit, or the submitter's own."""
ENV_TORCHX_REPLICA: Final = "TORCHX_REPLICA"
"""Set for every replica whose metrics go to a sink: its number in its role."""
ENV_TORCHX_ROLE: Final = "TORCHX_ROLE"
"""Set for every replica whose metrics go to a sink: its role."""
ENV_TORCHX_TRACKERS: Final = "TORCHX_TRACKERS"
"""Read by TorchX's trackers in the app; nobody here sets it."""
ENV_TRACE_CONTEXT: Final = ("TRACEPARENT", "TRACESTATE", "BAGGAGE")
"""OpenTelemetry's, set for every replica that was submitted within a span: what its own spans belong to."""
