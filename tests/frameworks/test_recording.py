"""The dumps that the tests of `aclgrad judge` record: msprobe makes the same of the same calls."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

_STATISTICS = ("Max", "Min", "Mean", "Norm")


def _entries(folder: Path) -> dict[str, Any]:
    entries: dict[str, Any] = json.loads((folder / "dump.json").read_text())["data"]
    return entries


def _without_statistics(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_statistics(each) for key, each in value.items() if key not in _STATISTICS}
    return [_without_statistics(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_msprobe_makes_the_same_dump(tmp_path: Path, dtype: str) -> None:
    command = [sys.executable, "-m", "tests.frameworks.table", str(tmp_path), dtype]
    subprocess.run(command, check=True, capture_output=True, timeout=110)
    own, (theirs,) = tmp_path / "own", (tmp_path / "msprobe").glob("step0/proc*")
    assert list(_entries(own)) == list(_entries(theirs))
    assert _without_statistics(_entries(own)) == _without_statistics(_entries(theirs))
    files = sorted(path.name for path in (own / "dump_tensor_data").iterdir())
    assert files == sorted(path.name for path in (theirs / "dump_tensor_data").iterdir())
    for name in files:
        one, other = (torch.load(each / "dump_tensor_data" / name, weights_only=True) for each in (own, theirs))
        assert torch.equal(one, other), name
