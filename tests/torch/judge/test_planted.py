"""Faults in the recorded results of every call of a table: found, and reported where they are, and nowhere else."""

from pathlib import Path
from typing import Final

import pytest
import torch

from tests.torch.judge.planting import FAULTS, plant
from tests.torch.judge.table import CALLS
from tests.torch.recording import Recording, tensors
from tests.torch.running import judge

DTYPES: Final = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
SMALL: Final = ("one percent", "one element")
"""The faults nearest to the limits of bfloat16."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Every call of the table twice, with other values, in each dtype."""
    return {name: _recorded(tmp_path_factory.mktemp(name), dtype) for name, dtype in DTYPES.items()}


def _recorded(folder: Path, dtype: torch.dtype) -> Path:
    recording, generator = Recording(folder), torch.Generator().manual_seed(7)
    for call in CALLS:
        for _ in range(2):
            args, options = call.drawn(dtype, generator)
            outputs = [each for each in tensors(recording.call(call.api, *args, **options)) if each.requires_grad]
            gradients = [torch.randn(each.shape, generator=generator).to(each.dtype) for each in outputs]
            torch.autograd.backward(outputs, gradients)
    return recording.write()


def _is_second(name: str) -> bool:
    return int(name.split(".")[-2]) % 2 == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_calls_that_are_right_pass(recorded: dict[str, Path], dtype: str, tmp_path: Path) -> None:
    found = judge(recorded[dtype], tmp_path / "out", "--require-all")
    assert found.exit_code == 0, found.output
    assert len(found.verdicts) == 4 * len(CALLS)
    assert set(found.verdicts.values()) == {"passed"}


@pytest.mark.parametrize(
    ("dtype", "fault"),
    [("float32", fault) for fault in FAULTS] + [("bfloat16", fault) for fault in SMALL],
)
def test_faults_are_found_where_they_are(recorded: dict[str, Path], dtype: str, fault: str, tmp_path: Path) -> None:
    planted = plant(recorded[dtype], tmp_path / "dump", FAULTS[fault], _is_second)
    assert len(planted.entries) > 1.5 * len(CALLS)
    found = judge(planted.path, tmp_path / "out")
    assert found.exit_code == 1
    failed = {name for name, verdict in found.verdicts.items() if verdict == "failed"}
    assert failed == set(planted.entries)
    assert found.summary["first_wrong"]["name"] == planted.entries[0]
