"""torch_npu's npu_rotary_mul: judged as it was recorded, and differentiated by a server."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from aclgrad.judge.dumps.rotary import npu_rotary_mul
from tests.judge.torch.recording import Recording
from tests.judge.torch.running import drawn, judge, plant, replay
from tests.wrong_servers import changed, of_gradients
from tools.serving import Server

NAME = "NPU.npu_rotary_mul"
OPERATOR = "rotary_position_embedding_grad"


def rotated(input: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half") -> Tensor:
    """Rotates by a matrix that changes places and signs."""
    size = input.shape[-1]
    rotation = torch.zeros(size, size, dtype=input.dtype)
    for index in range(size // 2):
        pair = (2 * index, 2 * index + 1) if rotary_mode == "interleave" else (index, index + size // 2)
        rotation[pair[1], pair[0]], rotation[pair] = -1, 1
    return input * r1 + input @ rotation * r2


def dump(folder: Path, dtype: torch.dtype) -> Path:
    recording = Recording(folder)
    for mode in ("half", "interleave"):
        for is_wanted in (False, True):
            angles = drawn(1, 1, 10, 16)
            tables = (each.to(dtype).requires_grad_(is_wanted) for each in (angles.cos(), angles.sin()))
            input = drawn(2, 3, 10, 16, dtype=dtype, grad=True)
            found = recording.call(NAME, input, *tables, rotary_mode=mode, function=npu_rotary_mul)
            found.backward(drawn(2, 3, 10, 16, dtype=dtype))
    return recording.write()


@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_it_is_a_rotation(mode: str) -> None:
    tensors = [drawn(*shape).double().requires_grad_() for shape in ((2, 3, 5, 8), (1, 1, 5, 8), (2, 1, 5, 8))]
    gradient = drawn(2, 3, 5, 8).double()
    results = [function(*tensors, mode) for function in (npu_rotary_mul, rotated)]
    found, right = ([each.detach(), *torch.autograd.grad(each, tensors, gradient)] for each in results)
    torch.testing.assert_close(found, right)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_calls_are_judged_and_differentiated(server: Server, tmp_path: Path, dtype: torch.dtype) -> None:
    ran = replay(dump(tmp_path / "dump", dtype), server, tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    assert set(ran.verdicts.values()) <= {"passed", "noted"}
    assert ran.summary["served"]["backward"] == 4
    assert len(ran.gradients("server")) == 2 * (1 + 3)


def test_an_error_of_one_percent_is_found(server: Server, tmp_path: Path) -> None:
    path = dump(tmp_path / "dump", torch.float32)

    def scaled(array: np.ndarray) -> np.ndarray:
        return array * np.float32(1.01) if array.shape == (1, 1, 10, 16) else array

    with changed(server.address, of_gradients(OPERATOR, scaled)) as wrong:
        ran = replay(path, wrong, tmp_path / "out")
    failed = {name for name, verdict in ran.sides("server").items() if verdict == "failed"}
    assert failed == {f"npu_rotary_mul.{number} gradient of {name}" for number in (1, 3) for name in ("r1", "r2")}
    plant(tmp_path / "dump", f"{NAME}.2.backward.output.0", 1.01)
    verdicts = judge(path, tmp_path / "judged").verdicts
    assert {name for name, verdict in verdicts.items() if verdict == "failed"} == {f"{NAME}.2.backward"}


def test_other_rotations_are_told_by_name(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "dump")
    tensors = drawn(2, 3, 10, 16), drawn(1, 1, 10, 16), drawn(1, 1, 10, 16)
    recording.call(NAME, *tensors, rotary_mode="quarter", function=lambda *args, **_: args[0])
    (reason,) = judge(recording.write(), tmp_path / "out").reasons.values()
    assert reason == "rotary_mode is quarter; half and interleave are judged"
