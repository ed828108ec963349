"""Train a small network on the digits with DistributedDataParallel, one process per replica."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from torchx_core.runtime import report_metric, report_progress, report_result

BATCH = 64


def main() -> None:
    """Train, and let replica 0 save ``model.pt`` and report."""
    args = _arguments()
    _join(args.rank, args.replicas, args.rendezvous)
    try:
        losses = _train(args.data, args.epochs, args.rank, args.replicas, args.model)
    finally:
        dist.destroy_process_group()
    if args.rank == 0:
        report_result({"model": str(args.model), "loss": losses, "replicas": args.replicas})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="train.npz")
    parser.add_argument("--model", type=Path, required=True, help="file to save the model to")
    parser.add_argument("--rank", type=int, required=True, help="number of this replica")
    parser.add_argument("--replicas", type=int, required=True, help="how many replicas there are")
    parser.add_argument("--rendezvous", type=Path, required=True, help="file by which the replicas meet")
    parser.add_argument("--epochs", type=int, default=20)
    return parser.parse_args()


def _join(rank: int, replicas: int, rendezvous: Path) -> None:
    """Meet the other replicas through a file: no port to choose, so none that is taken."""
    # Where all replicas are on this host, gloo would ask for the address of its name, which a laptop often
    # cannot resolve. In containers, and on the nodes of a cluster, each has an address of its own.
    if os.environ.get("TORCHX_RANK0_HOST", "localhost") in {"localhost", "127.0.0.1"}:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=replicas)
    print(f"replica {rank} of {replicas} has joined", flush=True)


def _train(data: Path, epochs: int, rank: int, replicas: int, model_file: Path) -> list[float]:
    """Return the loss after each epoch, averaged over the replicas."""
    digits = np.load(data)
    # Every replica trains on its own share, the same number of batches each.
    x = torch.from_numpy(digits["x"])[rank::replicas]
    y = torch.from_numpy(digits["y"])[rank::replicas]
    batches = (len(digits["y"]) // replicas) // BATCH

    # 8 x 8 pixels in, a score for each of the ten digits out.
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    losses = []
    for epoch in range(epochs):
        own = _epoch(model, optimizer, x, y, batches)
        mean = torch.tensor(own)
        dist.all_reduce(mean)
        losses.append(round(mean.item() / replicas, 4))
        print(f"epoch {epoch + 1}/{epochs} loss {own:.4f} on this replica's share", flush=True)
        if rank == 0:
            report_metric("loss", losses[-1], step=epoch + 1)
            report_progress((epoch + 1) / epochs, f"epoch {epoch + 1} of {epochs}")
    if rank == 0:
        torch.save(model.module, model_file)
        print(f"model saved to {model_file}", flush=True)
    return losses


def _epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor, batches: int
) -> float:
    """Train on each batch once, in a new order, and return the mean loss."""
    order = torch.randperm(len(y))[: batches * BATCH].reshape(batches, BATCH)
    total = 0.0
    for batch in order:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / batches


if __name__ == "__main__":
    main()
