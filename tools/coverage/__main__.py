"""Trains known models for a step each, and tells how much of it a server computes, and how exactly.

`make coverage` takes all of them and writes docs/coverage.md. `make coverage-short` takes eight, and fails if a share
is less than that page promises. Both fail if gradients are less exact than they have to be, or if the account of the
bridge is not what was counted.
"""

import argparse
import datetime
import sys
import time
from collections.abc import Iterable
from typing import Final

import torch

import aclgrad
from aclgrad.errors import InvalidFieldError
from tools.coverage.counting import CountingClient
from tools.coverage.page import BLOCK, PAGE, STEP, promises, too_large, with_tables
from tools.coverage.runs import MiscountError, Trial
from tools.coverage.shares import Shares
from tools.models import EVERY
from tools.serving import Server

SHORT: Final = ("resnet18", "unet", "gpt2", "llama", "diffusion", "vae", "gat", "wavenet")
"""Convolutions, norms, attention, dropout, noise, indices and pads, in less than a minute."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.coverage", description=__doc__)
    parser.add_argument("models", nargs="*", choices=[*EVERY, []], metavar="MODEL", help="by default all")
    parser.add_argument("--short", action="store_true", help="eight models")
    flags = parser.parse_args()
    names = flags.models or (SHORT if flags.short else tuple(EVERY))
    # The tensors are small, and threads that wait by spinning take the processors from the server.
    torch.set_num_threads(1)
    found: dict[str, dict[str, Shares]] = {BLOCK: {}, STEP: {}}
    refused: dict[str, str] = {}
    problems: list[str] = []
    text = PAGE.read_text()
    # The run of all models makes new promises.
    is_whole = names == tuple(EVERY)
    promised = {} if is_whole else promises(text)
    with Server() as server, CountingClient(server.address, timeout_s=120) as client:
        for number, name in enumerate(names, 1):
            begin, trial = time.monotonic(), Trial(EVERY[name], client)
            for way, run in ((BLOCK, trial.in_block), (STEP, trial.in_step)):
                try:
                    shares = found[way][name] = run()
                except MiscountError as error:
                    problems.append(f"{name}, {way.lower()}: {error}")
                except InvalidFieldError as error:
                    if way is BLOCK:
                        raise
                    refused[name] = str(error).removeprefix("step ").partition("; ")[0]
                    if (way, name) in promised:
                        problems.append(f"{name} was a step: {error}")
                else:
                    worse = promised[way, name].problems(shares) if (way, name) in promised else too_large(shares)
                    problems += [f"{name}, {way.lower()}: {each}" for each in worse]
            print(f"{number} of {len(names)}: {name}, {time.monotonic() - begin:.1f} s", flush=True)
    if is_whole and not problems:
        versions = f"{datetime.date.today():%d %B %Y}, aclgrad {aclgrad.__version__}, PyTorch {torch.__version__}."
        PAGE.write_text(with_tables(text, found, refused, versions))
    return report(problems)


def report(problems: Iterable[str]) -> int:
    """Prints the problems, and returns the exit code."""
    lines = list(problems)
    print("\n".join(lines) or "docs/coverage.md keeps its promises", file=sys.stderr if lines else None)
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
