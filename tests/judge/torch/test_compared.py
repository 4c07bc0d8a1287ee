"""compare_backward and assert_gradients_match around training steps, with right servers and wrong ones."""

import gc
import signal
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import aclgrad
import aclgrad.torch
from aclgrad.testing import assert_gradients_match
from aclgrad.torch import compare_backward
from tests.torch.conftest import RecordingClient
from tools.serving import Server

INPUT = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.MaxPool2d(2))
        self.head = nn.Sequential(nn.ReplicationPad2d(1), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.LayerNorm(16))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return self.head(self.stem(input))


def step(network: nn.Module, input: torch.Tensor = INPUT) -> None:
    torch.manual_seed(2)
    output = network(input)
    (output * torch.randn(output.shape)).sum().backward()


class WrongClient(RecordingClient):
    """Changes the gradients of one operator."""

    operator, factor, index = "", 1.0, ()

    def execute(self, name: str, *args: object, **options: object) -> object:
        found = super().execute(name, *args, **options)
        if name == self.operator:
            first = found[0] if isinstance(found, tuple) else found
            first[self.index] *= self.factor
        return found


@pytest.fixture
def wrong(server: Server) -> Iterator[WrongClient]:
    with WrongClient(server.address) as client:
        yield client


def test_a_step_keeps_its_own_gradients_and_state_bit_by_bit(client: RecordingClient) -> None:
    torch.manual_seed(1)
    alone, compared = Net(), Net()
    compared.load_state_dict(alone.state_dict())
    step(alone)
    with compare_backward(client) as found:
        step(compared)
    for (name, one), other in zip(alone.named_parameters(), compared.parameters(), strict=True):
        assert torch.equal(one.grad, other.grad), name
    for (name, one), other in zip(alone.named_buffers(), compared.buffers(), strict=True):
        assert torch.equal(one, other), name
    gradients = {(row.operator, row.case): row.verdict for row in found.rows}
    assert gradients == {
        ("layer_norm", "Net.head.3 input"): "passed",
        ("layer_norm", "Net.head.3 weight"): "passed",
        ("layer_norm", "Net.head.3 bias"): "passed",
        ("adaptive_avg_pool2d", "Net.head.1 input"): "passed",
        ("pad", "Net.head.0 input"): "passed",
        ("max_pool2d", "Net.stem.2 input"): "passed",
        ("batch_norm", "Net.stem.1 input"): "passed",
        ("batch_norm", "Net.stem.1 weight"): "passed",
        ("batch_norm", "Net.stem.1 bias"): "passed",
        ("conv2d", "Net.stem.0 weight"): "passed",
        # The batch's mean takes it away again, so all terms cancel.
        ("conv2d", "Net.stem.0 bias"): "noted",
    }
    assert not found.failed
    assert str(found).endswith("10 passed, 0 failed, 1 noted, 0 skipped")
    lines = [" ".join(line.split()) for line in str(found).splitlines()]
    assert lines[:4] == [
        "6 of 8 backward calls of the step were compared",
        "calls not compared layer because",
        "2 plain arithmetic",
        "",
    ]


@pytest.mark.parametrize(("factor", "index"), [(1.01, ...), (np.nan, (1, 2, 3, 4))])
def test_a_wrong_gradient_is_found_named_and_located(
    wrong: WrongClient, factor: float, index: object, tmp_path: Path
) -> None:
    wrong.operator, wrong.factor, wrong.index = "batch_norm_backward", factor, index
    network = Net()
    with pytest.raises(AssertionError, match=r"gradients of .* are wrong") as caught:
        assert_gradients_match(lambda: step(network), wrong)
    assert "failed   1          " in str(caught.value)
    with compare_backward(wrong) as found:
        step(network)
    (row,) = found.failed
    assert (row.operator, row.case) == ("batch_norm", "Net.stem.1 input")
    if index is not ...:
        assert row.worst[0].index == index
    found.save(tmp_path / "worst.safetensors")
    tensors = load_file(tmp_path / "worst.safetensors")
    with safe_open(tmp_path / "worst.safetensors", "pt") as file:
        told = file.metadata()
    assert (told["function"], told["gradient"]) == ("batch_norm", "Net.stem.1 input")
    # What was saved is enough to see it again.
    input = tensors["input"].double().requires_grad_()
    output = functional.batch_norm(input, None, None, tensors["weight"].double(), tensors["bias"].double(), True)
    (truth,) = torch.autograd.grad(output, input, tensors["grad_output"].double())
    torch.testing.assert_close(tensors["expected.input"], truth)
    assert not torch.allclose(tensors["gradient.input"].double(), truth, rtol=1e-3, atol=0)


def test_of_a_step_only_the_worst_calls_are_kept(client: RecordingClient) -> None:
    """Not the graph of the step, which holds the arguments of all its calls."""
    hidden = INPUT.clone().requires_grad_()
    held = []
    with compare_backward(client) as found:
        for _ in range(8):
            hidden = hidden.sin()
            held.append(weakref.ref(hidden))
            hidden = functional.layer_norm(hidden, [8])
        hidden.pow(2).sum().backward()
    del hidden
    gc.collect()
    assert len(found.rows) == 8
    assert [each() for each in held] == [None] * 8


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_a_sum_behind_a_normalisation_are_noted(client: RecordingClient, dtype: torch.dtype) -> None:
    """They are 0 by mathematics; float32 makes of them what it likes, and some of it is exact."""
    generator = torch.Generator().manual_seed(4)
    with compare_backward(client) as found:
        for size in (8, 10, 60, 336, 600):
            input = torch.randn(4, size, generator=generator).to(dtype).requires_grad_()
            functional.layer_norm(input, [size]).backward(torch.full_like(input, 3))
            functional.batch_norm(input.t(), None, None, training=True).backward(torch.full_like(input.t(), 3))
    assert {row.verdict for row in found.rows} == {"noted"}, str(found)


def test_backward_may_follow_the_block_and_halves_are_compared(client: RecordingClient) -> None:
    for dtype, is_autocast in ((torch.float16, False), (torch.bfloat16, False), (torch.float32, True)):
        network = Net().to(dtype)
        with compare_backward(client) as found, torch.autocast("cpu", torch.bfloat16, enabled=is_autocast):
            output = network(INPUT.to(dtype)).sum()
        output.backward()
        assert len(found.rows) == 11
        assert is_autocast or {row.dtype for row in found.rows} == {str(dtype).removeprefix("torch.")}
        assert not found.failed


def test_what_cannot_be_compared_is_skipped_with_its_reason(client: RecordingClient) -> None:
    with compare_backward(client) as found:
        functional.max_pool2d(INPUT.clone().requires_grad_(), 3, dilation=2).sum().backward()
        functional.pad(INPUT.clone().requires_grad_(), (1, 1)).sum().backward()
    assert [(row.operator, row.verdict) for row in found.rows] == [("max_pool2d", "skipped"), ("pad", "skipped")]
    assert "no dilation" in found.rows[0].message
    assert "no operator for constant pads" in found.rows[1].message
    with pytest.raises(AssertionError, match="no gradient was compared"):
        assert_gradients_match(lambda: torch.erf(INPUT.clone().requires_grad_()).sum().backward(), client)
    with pytest.raises(aclgrad.errors.InvalidSettingError, match="client is a str"):
        compare_backward("127.0.0.1:1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no gradient was compared, so there is none to save"):
        compare_backward(client).save("nowhere")


def test_arguments_that_were_changed_in_place_are_not_compared(client: RecordingClient) -> None:
    """PyTorch keeps no input of an interpolation, so it lets the step go on."""
    with compare_backward(client) as found:
        hidden = INPUT.clone().requires_grad_() * 1
        scaled = functional.interpolate(hidden, scale_factor=2)
        hidden.add_(1)
        scaled.sum().backward()
    (row,) = found.rows
    assert row.verdict == "skipped"
    assert "changed in place" in row.message


def test_a_server_that_goes_away_does_not_end_the_step() -> None:
    network = Net()
    with Server() as server, aclgrad.Client(server.address, timeout_s=1) as client:
        with compare_backward(client) as found:
            output = network(INPUT).square().sum()
        server.send(signal.SIGKILL)
        server.exit_code()
        output.backward()
    assert network.stem[0].weight.grad is not None
    assert {row.verdict for row in found.rows} == {"skipped"}


def test_what_was_not_compared_comes_first_with_its_reason(client: RecordingClient) -> None:
    images = INPUT.clone().requires_grad_()
    attention = nn.MultiheadAttention(8, 2)
    with compare_backward(client) as found:
        hidden = functional.max_pool2d(nn.Conv2d(3, 3, 1)(images), 3, 1, 1)
        dilated = functional.max_pool2d(hidden, 2, dilation=2)
        mixed = attention(hidden[0], hidden[0], hidden[0])[0]
        unused = functional.silu(hidden)
        loss = functional.cross_entropy(mixed.flatten(1), torch.tensor([1, 0, 2])) + dilated.exp().mean()
        loss.backward(retain_graph=True)
        loss.backward()
    assert unused.requires_grad
    calls = {(site.function, site.layer, site.because) for site in found.calls()}
    assert calls == {
        ("conv2d", "Conv2d", None),
        ("max_pool2d", "", None),
        ("max_pool2d", "", "the operator has no dilation"),
        *((name, "MultiheadAttention", None) for name in ("linear", "bmm", "softmax")),
        ("silu", "", "backward() has brought no gradient to it"),
        ("cross_entropy", "", None),
    }
    # cross_entropy has two parts.
    assert sum(count for site, count in found.calls().items() if site.function == "cross_entropy") == 2
    head, titles, *lines = str(found).splitlines()
    assert head.endswith(" backward calls of the step were compared")
    assert titles.split() == ["calls", "not", "compared", "layer", "because"]
    assert lines.index("") < next(number for number, line in enumerate(lines) if line.startswith("passed"))


def test_checkpoints_and_compiled_graphs_are_reported_as_not_compared(client: RecordingClient) -> None:
    pool = nn.MaxPool2d(2)
    with compare_backward(client) as found:
        checkpoint(pool, INPUT.clone().requires_grad_(), use_reentrant=True).sum().backward()
        torch.compile(pool, backend="aot_eager")(INPUT.clone().requires_grad_()).sum().backward()
        checkpoint(pool, INPUT.clone().requires_grad_(), use_reentrant=False).sum().backward()
    reasons = {site.function: site.because for site in found.calls()}
    assert "give it use_reentrant=False" in reasons["CheckpointFunction"]
    assert "compare the model that is not compiled" in reasons["CompiledFunction"]
    assert reasons["max_pool2d"] is None
    assert str(found).startswith("1 of 6 backward calls of the step were compared")
