"""Where reports go besides: TensorBoard, MLflow and Weights & Biases, each by its own client.

Runs in the app's own process, and `torchx_core.runtime` imports it only where ``TORCHX_METRIC_SINKS`` is set.
Needs the standard library, and of the clients those that are named.
"""

from __future__ import annotations

__all__: list[str] = []
