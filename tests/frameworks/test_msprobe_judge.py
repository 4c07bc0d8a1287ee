"""`aclgrad judge` of dumps that the real msprobe makes on a CPU, whose results are right."""

from pathlib import Path

import pytest
import torch

from tests.frameworks.replaying import dump_steps
from tests.torch.running import Ran, judge

CONFIG = {"task": "tensor", "tensor": {"scope": [], "list": [], "data_mode": ["all"]}}
PLANTED = "Functional.layer_norm.0.backward"


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a dump of three steps, in float32 and both halves."""
    folder = tmp_path_factory.mktemp("judged") / "dump"
    dump_steps(folder, CONFIG)
    return folder


@pytest.fixture(scope="module")
def found(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return judge(dump, tmp_path_factory.mktemp("judged") / "out")


def test_no_right_result_is_wrong(found: Ran) -> None:
    failed = {name for name, verdict in found.verdicts.items() if verdict == "failed"}
    # torchvision's kernel for a CPU adds up in float16.
    assert all(name.startswith("torchvision.ops.roi_align") for name in failed), found.output
    assert found.summary["judged"] >= 0.95 * found.summary["calls"]


def test_a_gradient_that_was_changed_is_the_first_wrong_call(dump: Path, tmp_path: Path) -> None:
    (path,) = dump.glob(f"step0/*/dump_tensor_data/{PLANTED}.output.0.pt")
    right = torch.load(path, weights_only=True)
    torch.save(right * 1.01, path)
    found = judge(dump, tmp_path / "out", "--api", "layer_norm")
    torch.save(right, path)
    assert found.exit_code == 1
    assert found.summary["first_wrong"]["name"] == PLANTED
    assert found.summary["failed"] == 1
