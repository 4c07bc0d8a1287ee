"""Asks the installed msprobe, in a process of its own: importing it seeds generators and changes settings of PyTorch.

python -m tests.frameworks.msprobe_oracle rows|draws|compare INPUT OUTPUT
"""

import argparse
import copy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor


def ask(question: str, given: Path, answer: Path) -> None:
    """Runs one of the functions below; raises CalledProcessError with msprobe's log if it fails."""
    command = [sys.executable, "-m", __name__, question, str(given), str(answer)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100)
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout)


def rows(given: Path, answer: Path) -> None:
    """Writes the cells of pairs of a reference and a device's tensor, without names, and the titles before them."""
    from msprobe.pytorch.api_accuracy_checker.compare.compare import Comparator
    from msprobe.pytorch.api_accuracy_checker.compare.compare_utils import DETAIL_TEST_ROWS

    comparator = Comparator(f"{answer}.result.csv", f"{answer}.details.csv", False)
    found = [DETAIL_TEST_ROWS[0]]
    for truth, device in torch.load(given):
        status, columns, message = comparator._compare_core("pad", truth, device, False)  # noqa: SLF001
        cells = columns.to_column_value(status, message)
        found.append([f"{cell:.14f}" if isinstance(cell, float) else str(cell) for cell in cells])
    torch.save(found, answer)


def draws(given: Path, answer: Path) -> None:
    """Writes the tensors that acc_check makes for each call of a folder's dumps, by dump and by call."""
    from msprobe.pytorch.api_accuracy_checker.acc_check import acc_check, acc_check_utils

    acc_check.current_device = acc_check_utils.current_device = "cpu"
    drawn: list[Tensor] = []

    def recorded(function: Callable[..., Any], order: Callable[[Any], Any]) -> Callable[..., Any]:
        def record(*arguments: Any, **options: Any) -> Any:
            made = function(*arguments, **options)
            drawn.extend(tensors(order(made)))
            return made

        return record

    acc_check.gen_api_params = recorded(acc_check.gen_api_params, lambda made: [list(made[1].values()), made[0]])
    acc_check.gen_args = recorded(acc_check.gen_args, lambda made: made)
    found: dict[str, dict[str, list[Tensor]]] = {}
    for path in given.glob("*/dump.json"):
        acc_check.seed_all()
        forward, backward, _ = acc_check.parse_json_info_forward_backward(str(path))
        for name, call in forward.items():
            drawn.clear()
            _, api = acc_check.extract_basic_api_segments(name)
            if not acc_check.is_unsupported_api(name) and not acc_check.blacklist_and_whitelist_filter(api, [], []):
                try:
                    acc_check.run_torch_api(name, str(path.parent / "dump_tensor_data"), backward, copy.deepcopy(call))
                except Exception as error:
                    print(name, error)
            found.setdefault(path.parent.name, {})[name] = list(drawn)
    torch.save(found, answer)


def tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value.detach().clone()]
    return [each for part in value for each in tensors(part)] if isinstance(value, (list, tuple)) else []


def compare(given: Path, answer: Path) -> None:
    """Compares a details CSV with the one of its name in the folder `local`, and writes into the folder `answer`."""
    from msprobe.pytorch.api_accuracy_checker.compare import api_precision_compare

    answer.mkdir()
    options = {
        "npu_csv_path": str(given),
        "gpu_csv_path": str(given.parent / "local" / given.name),
        "out_path": str(answer),
    }
    api_precision_compare._api_precision_compare_command(argparse.Namespace(**options))  # noqa: SLF001


QUESTIONS: Final = {"rows": rows, "draws": draws, "compare": compare}

if __name__ == "__main__":
    QUESTIONS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3]))
