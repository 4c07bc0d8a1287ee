"""Sends random programs to servers of several kinds: `python -m tools.random_programs --count 100000 --seed 1`."""

import argparse
import secrets
import sys
import tempfile
import time
from contextlib import ExitStack
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any, Final

import numpy as np

from aclgrad.judge.programs.drawing import draw_program
from aclgrad.products import Product
from tools.random_programs.checking import check_program
from tools.random_programs.sending import SharedBuffer
from tools.raw_calls import open_channel
from tools.serving import Server, write_host_config

MOST_PROBLEMS: Final = 20
SHARED_BYTES: Final = 2**25
KINDS: Final[dict[str, tuple[Product, dict[str, Any], tuple[str, ...]]]] = {
    "910B, host pointers": (Product.ATLAS_A2, {"host_pointers": True}, ()),
    "910B, copies": (Product.ATLAS_A2, {"host_pointers": False}, ()),
    "910A, copies, views read": (
        Product.ATLAS_TRAINING,
        {"host_pointers": False, "product": "910A"},
        ("--strided-inputs", "all"),
    ),
    "910B, no executors": (Product.ATLAS_A2, {"host_pointers": True}, ("--executor-cache", "off")),
}
"""Servers on strict devices, whose fresh memory is poisoned: product, device and flags."""


def main() -> int:
    """Returns the exit code: 1 if an answer was wrong or a device reported misuse."""
    parser = argparse.ArgumentParser(prog="python -m tools.random_programs", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="programs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60, help="steps of a program, at most")
    arguments = parser.parse_args()
    failed = 0
    for number, kind in enumerate(KINDS):
        count = arguments.count // len(KINDS)
        failed += _check_kind(kind, count, arguments.seed + number, arguments.steps)
    return 1 if failed else 0


def _check_kind(kind: str, count: int, seed: int, most_steps: int) -> int:
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        segment = SharedMemory(f"aclgrad-{secrets.token_hex(8)}", create=True, size=SHARED_BYTES)
        stack.callback(segment.unlink)
        stack.callback(segment.close)
        assert segment.buf is not None
        shared = SharedBuffer(f"/{segment.name}", segment.buf)
        steps, found = _send(kind, folder, count, seed, most_steps, shared)
        report = folder / "strict.txt"
        if report.exists() and (misuse := report.read_text()):
            found += 1
            print(f"{kind}: the device reports misuse\n{misuse[:4000]}", file=sys.stderr)
    seconds = time.monotonic() - start
    print(f"{kind}: {count} programs of {steps} steps in {seconds:.0f} s, {found} problems", flush=True)
    return found


def _send(kind: str, folder: Path, count: int, seed: int, most_steps: int, shared: SharedBuffer) -> tuple[int, int]:
    """Returns how many steps were sent, and how many problems there were."""
    product, device, flags = KINDS[kind]
    generator = np.random.default_rng(seed)

    def integer(first: int, last: int) -> int:
        return int(generator.integers(first, last, endpoint=True))

    config = write_host_config(folder, strict=True, strict_report=folder / "strict.txt", **device)
    steps, found = 0, 0
    listen = (f"unix:{folder}/socket",)
    with Server("--acl-config", config, "--shared-memory", *flags, listen=listen) as server:
        with open_channel(server) as channel:
            for number in range(count):
                program = draw_program(integer, product, most_steps)
                steps += len(program.steps)
                for problem in check_program(channel, program, product, integer, shared):
                    found += 1
                    print(f"{kind}, seed {seed}, program {number}: {problem}", file=sys.stderr)
                if found >= MOST_PROBLEMS:
                    break
        assert "Traceback" not in server.log, server.log[-4000:]
    return steps, found


if __name__ == "__main__":
    sys.exit(main())
