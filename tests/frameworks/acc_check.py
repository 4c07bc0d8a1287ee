"""msprobe's acc_check with the CPU in the place of a card: without one it takes a GPU for granted.

Run: python -m tests.frameworks.acc_check -api_info DUMP/dump.json -o FOLDER
"""

import gc

import torch
from msprobe.pytorch.api_accuracy_checker.acc_check import acc_check, acc_check_utils


def main() -> None:
    for module in (acc_check, acc_check_utils):
        module.current_device = "cpu"
    for name in ("set_device", "empty_cache"):
        setattr(torch.cuda, name, lambda *_: None)
    # It collects garbage after each call, and most of the time would go into what the imports made.
    gc.freeze()
    acc_check._acc_check()  # noqa: SLF001 - the command, which reads sys.argv


if __name__ == "__main__":
    main()
