"""Takes the pictures that the documents show, of real pages: `make screenshots`.

The app on them is one of two replicas that is killed in its first attempt and then succeeds.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from browser import browse

from torchx_core import AppDef, Role, get_runner
from torchx_core.page import AppPage

HERE: Final = Path(__file__).parent
TRAIN: Final = """
import math, os, random, signal, sys, time
from torchx_core.runtime import report_metric, report_progress, report_result
rank, attempt = int(sys.argv[1]), int(os.environ["TORCHX_ATTEMPT"])
noise = random.Random(rank)
print(f"INFO rank {rank} of 2, learning rate 0.1", flush=True)
for step in range(20 * attempt, 60):
    time.sleep(0.05)
    loss = 2.3 * math.exp(-step / 18) + 0.08 + noise.uniform(-0.04, 0.04)
    print(f"INFO step {step + 1}/60: loss {loss:.4f}", flush=True)
    if rank == 0:
        report_metric("loss", loss, step + 1)
        report_metric("accuracy", 1 - loss / 2.6, step + 1)
        report_progress((step + 1) / 60)
    if attempt == 0 and step == 24 and rank == 1:
        print("WARNING the node is going down", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
if rank == 0:
    report_result({"loss": round(loss, 4), "model": "s3://models/digits/42"})
"""


def main() -> None:
    """Run the app, and take a picture of its page, light and dark."""
    role = Role(
        name="trainer",
        image="",
        entrypoint=sys.executable,
        args=["-c", TRAIN, "${replica_id}"],
        num_replicas=2,
        max_retries=2,
    )
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TORCHX_STATE_DIR"] = f"{folder}/state"
        with get_runner() as runner:
            handle = runner.run(AppDef("digits", [role]), "local_cwd", app_id="digits-42")
            runner.wait(handle)
            page = Path(folder, "page.html")
            page.write_text(AppPage(runner, handle).html())
            with browse(Path(folder, "browser")) as browser:
                browser.resize(1200, 1000)
                browser.open(page.as_uri())
                browser.wait_for("SUCCEEDED", "step 60/60")
                browser.picture(HERE / "page.png")
            runner.delete(handle)


if __name__ == "__main__":
    main()
