"""A program that uses Hugging Face's accelerate, the real one, on two ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchx_core import AppState, get_runner
from torchx_core.components import dist

pytestmark = [pytest.mark.torch, pytest.mark.timeout(600)]

TRAIN = """
import json, sys, torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator()
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = DataLoader(TensorDataset(torch.randn(64, 4), torch.randn(64, 1)), batch_size=4)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
steps = 0
for inputs, targets in data:
    with accelerator.accumulate(model):
        accelerator.backward(torch.nn.functional.mse_loss(model(inputs), targets))
        optimizer.step()
        optimizer.zero_grad()
    steps += accelerator.sync_gradients
weight = accelerator.gather(accelerator.unwrap_model(model).weight.detach().clone())
with open(f"{sys.argv[1]}/{accelerator.process_index}", "w") as file:
    json.dump([accelerator.num_processes, accelerator.mixed_precision, steps, weight.tolist()], file)
"""


def test_a_program_learns_on_two_ranks(tmp_path: Path) -> None:
    """They are one run, with the options that were asked for: the same weights after every other batch."""
    script = tmp_path / "learn.py"
    script.write_text(TRAIN)
    app = dist.accelerate(
        str(tmp_path),
        script=str(script),
        j="1x2",
        mixed_precision="bf16",
        gradient_accumulation_steps=2,
        use_cpu=True,
        env={"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor")},
    )
    with get_runner() as runner:
        status = runner.wait(runner.run(app, "local_cwd"), timeout_s=500)
    assert status
    assert status.state == AppState.SUCCEEDED, status.failure_summary()
    ranks = [json.loads((tmp_path / str(rank)).read_text()) for rank in range(2)]
    assert ranks[0] == ranks[1]
    size, precision, steps, (first, second) = ranks[0]
    assert (size, precision, steps) == (2, "bf16", 4)
    assert first == second
