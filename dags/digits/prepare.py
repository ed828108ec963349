"""Split scikit-learn's handwritten digits into a training and a held-out file."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from torchx_core.runtime import report_result


def main() -> None:
    """Write ``train.npz`` and ``held_out.npz`` into the folder given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    parser.add_argument("--held-out", type=float, default=0.25, help="share that training never sees")
    args = parser.parse_args()

    digits = load_digits()
    pixels = (digits.data / 16.0).astype(np.float32)
    split = train_test_split(
        pixels, digits.target, test_size=args.held_out, random_state=0, stratify=digits.target
    )
    train_x, held_out_x, train_y, held_out_y = split

    args.out.mkdir(parents=True, exist_ok=True)
    np.savez(args.out / "train.npz", x=train_x, y=train_y)
    np.savez(args.out / "held_out.npz", x=held_out_x, y=held_out_y)
    print(f"{len(train_y)} digits to train on and {len(held_out_y)} held out, in {args.out}")
    report_result({"train": len(train_y), "held_out": len(held_out_y)})


if __name__ == "__main__":
    main()
