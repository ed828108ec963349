"""Measure a trained model on the held-out digits; fail when it is not good enough."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from torchx_core.runtime import report_result


def main() -> int:
    """Report the accuracy; return 1 when it is below the least one asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="held_out.npz")
    parser.add_argument("--model", type=Path, required=True, help="model.pt")
    parser.add_argument("--at-least", type=float, default=0.9, help="least accuracy that passes")
    args = parser.parse_args()

    digits = np.load(args.data)
    with torch.serialization.safe_globals([nn.Sequential, nn.Linear, nn.ReLU]):
        model = torch.load(args.model, weights_only=True)
    with torch.inference_mode():
        guesses = model(torch.from_numpy(digits["x"])).argmax(dim=1).numpy()
    right, total = int((guesses == digits["y"]).sum()), len(digits["y"])
    accuracy = right / total

    print(f"accuracy {accuracy:.1%}: {right} of {total} held-out digits right")
    report_result({"accuracy": round(accuracy, 4), "right": right, "total": total})
    if accuracy < args.at_least:
        print(f"accuracy {accuracy:.1%} is below the {args.at_least:.0%} asked for", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
