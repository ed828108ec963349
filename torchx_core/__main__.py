"""``python -m torchx_core`` is the program ``torchx-core``."""

from torchx_core.cli import main

main()
