"""Attention that a server computes and differentiates, of PyTorch and of torch_npu; planted errors are found."""

from pathlib import Path

import numpy as np
import pytest
import torch

from aclgrad.judge.bundles import read
from aclgrad.tensors import dtype_of_wire
from aclgrad.v1 import operator_service_pb2 as pb
from tests.judge.torch.dumps.test_attention import CALLS, DTYPES, NAME, dump
from tests.judge.torch.recording import Recording
from tests.judge.torch.running import drawn, replay
from tests.wrong_servers import Change, changed
from tools.serving import Server

GRADIENT = "flash_attention_score_grad"
PYTORCH = "Functional.scaled_dot_product_attention"
PLACES = {"query": 0, "key": 1, "value": 2}


def dump_of_pytorch(folder: Path, dtype: torch.dtype) -> Path:
    recording = Recording(folder)
    shapes = (2, 4, 20, 16), (2, 2, 17, 16), (2, 2, 17, 16)
    options = (
        {"enable_gqa": True},
        {"enable_gqa": True, "attn_mask": torch.ones(20, 17, dtype=torch.bool).tril(3), "scale": 0.5},
        {"enable_gqa": True, "is_causal": True},
        {"enable_gqa": True, "attn_mask": drawn(1, 1, 1, 17, dtype=dtype)},
    )
    for each in options:
        tensors = [drawn(*shape, dtype=dtype, grad=True) for shape in shapes]
        recording.differentiate(drawn(2, 4, 20, 16, dtype=dtype), PYTORCH, *tensors, **each)
    return recording.write()


def one_percent_of(place: int) -> Change:
    """Returns the change of one of the gradients of each call without a bias."""

    def change(method: str, request: bytes, reply: bytes) -> bytes:
        if method != "ExecuteOperator" or pb.ExecuteOperatorRequest.FromString(request).operator != GRADIENT:
            return reply
        message = pb.ExecuteOperatorResponse.FromString(reply)
        tensor = message.outputs[place]
        dtype = dtype_of_wire(tensor.data_type)
        assert dtype is not None
        array = np.frombuffer(tensor.data, dtype.numpy)
        tensor.data = (array.astype(np.float32) * 1.01).astype(array.dtype).tobytes()
        return message.SerializeToString()

    return change


@pytest.mark.parametrize("dtype", DTYPES)
def test_attention_is_computed_and_right(server: Server, tmp_path: Path, dtype: torch.dtype) -> None:
    for make, count in ((dump, CALLS), (dump_of_pytorch, 4)):
        folder = tmp_path / make.__name__
        ran = replay(make(folder, dtype), server, folder / "out")
        assert ran.exit_code == 0, ran.output
        gradients = ran.gradients("server")
        assert len(gradients) == 3 * count
        assert set(ran.sides("server").values()) <= ({"passed", "noted"} if dtype == torch.bfloat16 else {"passed"})
        assert ran.summary["served"]["backward"] == count
        assert ran.summary["served"]["forward"] == count


@pytest.mark.parametrize(("argument", "dtype"), [*((each, torch.float32) for each in PLACES), ("key", torch.bfloat16)])
def test_one_percent_of_a_gradient_is_found_where_it_is(
    server: Server, tmp_path: Path, argument: str, dtype: torch.dtype
) -> None:
    for make, name in ((dump, NAME), (dump_of_pytorch, PYTORCH)):
        folder = tmp_path / name
        with changed(server.address, one_percent_of(PLACES[argument])) as wrong:
            ran = replay(make(folder, dtype), wrong, folder / "out", "--bundle", str(folder / "worst.zip"))
        failed = {each for each, verdict in ran.sides("server").items() if verdict == "failed"}
        assert ran.exit_code == 1
        assert {each.rpartition(" ")[2] for each in failed} == {argument}
        assert len(failed) == sum(each.endswith(f" {argument}") for each in ran.gradients("server")) - 1
        (step,) = read(folder / "worst.zip").judged.program.steps
        assert step.operator == GRADIENT
