"""For tests/test_processes.py, started by torchrun: many commands in one start, which costs seconds."""

import shlex
import sys
from pathlib import Path

from tfcsr import processes
from tfcsr.cli import main

if __name__ == "__main__":
    with processes.joined():
        for line in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
            main(shlex.split(line))
