"""`python -m tools.lab SCENARIO`: ends with 1 if a promise was broken or nothing was proved."""

import argparse
import sys
from importlib import import_module
from typing import Final

SCENARIOS: Final = {
    "chaos": "tools.lab.chaos.run",
    "rolling": "tools.lab.rolling",
    "soak": "tools.lab.soak.run",
    "load": "tools.lab.load.run",
    "hostile": "tools.lab.hostile.run",
}


def main() -> int:
    parser = argparse.ArgumentParser("python -m tools.lab", description=__doc__)
    parser.add_argument("scenario", choices=list(SCENARIOS))
    scenario, *words = sys.argv[1:] or ["--help"]
    parser.parse_args([scenario])
    module = import_module(SCENARIOS[scenario])
    own = argparse.ArgumentParser(f"python -m tools.lab {scenario}", description=module.__doc__)
    return int(module.main(own, words))


if __name__ == "__main__":
    sys.exit(main())
