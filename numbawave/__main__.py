"""``python -m numbawave``, such as ``torchrun --nproc-per-node 2 -m numbawave fwi job.toml``."""

import sys

from numbawave.apps.cli import main

if __name__ == "__main__":
    sys.exit(main())
