"""Losses, activations and dropout that a server differentiates: in 16 bits, by wrong servers, and within a step."""

from pathlib import Path
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from aclgrad.torch import compare_backward
from tests.judge.torch.recording import Recording
from tests.judge.torch.running import drawn, replay
from tests.judge.torch.test_replayed_apis import DROPOUTS, LIMITED, LOSSES
from tests.torch.conftest import RecordingClient
from tests.wrong_servers import changed, of_gradients, one_element
from tools.serving import Server

CLASSES: Final = torch.tensor([1, 0, 3, -100])


def function_of(api: str) -> Any:
    from aclgrad.judge.replay.jobs import served_apis

    return served_apis()[api].function


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_16_bits_are_replayed(server: Server, tmp_path: Path, dtype: torch.dtype) -> None:
    """But CTC, of which PyTorch has no kernel."""

    def narrow(value: Any) -> Any:
        is_float = isinstance(value, Tensor) and value.is_floating_point()
        return value.detach().to(dtype).requires_grad_(value.requires_grad) if is_float else value

    dump = Recording(tmp_path / "dump")
    calls = {**LIMITED, **LOSSES, **DROPOUTS}
    names = [each for each in calls if "ctc" not in each]
    for name in names:
        args, grad_output, options = calls[name]
        given = {key: narrow(each) for key, each in options.items()}
        dump.differentiate(grad_output.to(dtype), name, *map(narrow, args), function=function_of(name), **given)
    found = replay(dump.write(), server, tmp_path / "out")
    wrong = {row["name"]: row["message"] for row in found.rows if row["verdict"] not in ("passed", "noted")}
    assert wrong == {}
    assert found.summary["served"]["backward"] == len(names)


@pytest.mark.parametrize(
    ("operator", "apis"),
    [
        ("log_softmax_backward", {"cross_entropy", "npu_cross_entropy_loss"}),
        ("nll_loss_backward", {"nll_loss"}),
        ("mse_loss_backward", {"mse_loss"}),
        ("ctc_loss_backward", {"ctc_loss"}),
        ("hardtanh_backward", {"hardtanh", "hardtanh_", "relu6"}),
        ("dropout_do_mask", {each.partition(".")[2] for each in DROPOUTS}),
    ],
)
def test_wrong_gradients_of_a_server_fail_where_they_are(
    server: Server, tmp_path: Path, operator: str, apis: set[str]
) -> None:
    dump = Recording(tmp_path / "dump")
    for name, (args, grad_output, options) in {**LIMITED, **LOSSES, **DROPOUTS}.items():
        dump.differentiate(grad_output, name, *args, function=function_of(name), **options)
    with changed(server.address, of_gradients(operator, one_element)) as wrong:
        found = replay(dump.write(), wrong, tmp_path / "out")
    failed = {name.partition(".")[0] for name, verdict in found.sides("server").items() if verdict == "failed"}
    assert failed == apis


def test_a_dropout_without_its_output_is_named(server: Server, tmp_path: Path) -> None:
    dump = Recording(tmp_path / "dump", task="statistics")
    dump.differentiate(drawn(3, 8), "Functional.dropout", drawn(3, 8, grad=True), 0.3, True)
    found = replay(dump.write(), server, tmp_path / "out")
    (row,) = (row for row in found.rows if row["name"].endswith(".backward"))
    assert "it draws random numbers, and the dump has no elements" in row["unserved"]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.output = nn.Linear(6, 16), nn.Linear(16, 4)
        self.activation, self.dropout = nn.Mish(), nn.Dropout(0.25)

    def forward(self, rows: Tensor) -> Tensor:
        return self.output(self.dropout(self.activation(self.hidden(rows))))


def step(network: nn.Module, found: compare_backward) -> compare_backward:
    with found:
        logits = network(drawn(4, 6))
        loss = functional.cross_entropy(logits, CLASSES, label_smoothing=0.1)
        (loss + functional.smooth_l1_loss(logits, drawn(4, 4))).backward()
    return found


def test_losses_and_dropout_of_a_step_are_compared(client: RecordingClient, server: Server) -> None:
    torch.manual_seed(3)
    network = Net()
    right = step(network, compare_backward(client))
    assert not right.failed, str(right)
    compared = {row.operator for row in right.rows if row.verdict == "passed"}
    assert compared >= {"cross_entropy", "smooth_l1_loss", "dropout", "mish", "linear"}
    for operator, function in (("log_softmax_backward", "cross_entropy"), ("dropout_do_mask", "dropout")):
        with changed(server.address, of_gradients(operator, one_element)) as address, RecordingClient(address) as wrong:
            assert {row.operator for row in step(network, compare_backward(wrong)).failed} == {function}
