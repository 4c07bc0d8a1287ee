"""The command behind `make bench`: WHAT is one of summary, rates, kernels, calls, programs, steps, bridge and ray."""

import argparse
from importlib import import_module
from typing import Final

WHATS: Final = ("summary", "rates", "kernels", "calls", "programs", "steps", "bridge", "ray")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("what", choices=WHATS)
    parser.add_argument("--quick", action="store_true", help="a minute or two: fewer sizes, loads and rounds")
    flags, others = parser.parse_known_args()
    # Imported on demand: some need a framework, and Ray.
    import_module(f"tools.benchmarks.{flags.what}").main(flags.quick, others)


if __name__ == "__main__":
    main()
