"""Whole networks: gradients are PyTorch's, and the account is a count of what autograd runs.

The count is of its engine's events, and of the operators that each node calls.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Final

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.profiler import profile
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count

import aclgrad
import aclgrad.torch
from examples import train_cnn
from tools.serving import Server

from .conftest import RecordingClient
from .networks import NETWORKS, Network

MOVING: Final = {
    "_reshape_alias", "_unsafe_view", "add", "add_", "alias", "as_strided", "cat", "clone", "copy_", "detach",
    "empty_like", "expand", "new_empty_strided", "new_zeros", "ones_like", "permute", "select", "select_backward",
    "slice", "slice_backward", "split", "squeeze", "stack", "t", "transpose", "unsqueeze", "view", "zeros",
    "zeros_like",
}  # fmt: skip
"""Operators that compute nothing; autograd itself adds the gradients of a tensor that is used twice."""
HANDED_ON: Final = frozenset({"AddBackward0", "SubBackward0", "SumBackward0", "SumBackward1"})
"""Arithmetic whose gradient may be the gradient that it gets."""
SUMS: Final = frozenset({"torch::autograd::AccumulateGrad", "ExpandBackward0"})
"""Nodes that add, and that are leaves and views all the same."""
ON_CPU: Final = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward  # noqa: SLF001 - its only name
LSTM: Final = torch.ops.aten.mkldnn_rnn_layer_backward
MORE: Final = {
    # PyTorch's own formula, which it does not apply on the CPU.
    ON_CPU: lambda grad_out, *inputs, **_: sdpa_backward_flop_count(grad_out, *inputs[:3]),
    # For each word and example, input and state with their weights, once for the gradients of either.
    LSTM: lambda input, of_input, of_state, *_, **__: 4 * math.prod([*input[:2], 4 * 8, 8 + 8]),
}
"""Formulas that its counter lacks."""


class Operators(TorchDispatchMode):
    """Notes which operators are called by the nodes of each name."""

    def __init__(self) -> None:
        super().__init__()
        self.called: dict[str, set[str]] = defaultdict(set)

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        node = torch._C._current_autograd_node()  # noqa: SLF001 - nothing else tells
        if node is not None:
            self.called[node.name()].add(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


def counted(loss: Tensor) -> int:
    """Returns how many nodes of the loss compute something in backward()."""
    with Operators() as operators, profile() as events:
        loss.backward()
    ran = Counter(
        event.name.removeprefix("autograd::engine::evaluate_function: ")
        for event in events.function_events
        if event.name.startswith("autograd::engine::evaluate_function: ")
    )
    computing = {name for name, called in operators.called.items() if called - MOVING} - SUMS
    return sum(count for name, count in ran.items() if name in computing | HANDED_ON)


def network_of(name: str) -> Network:
    torch.manual_seed(3)
    return NETWORKS[name]()


def gradients(network: Network) -> list[Tensor | None]:
    return [each.grad for each in network.model.parameters()]


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_pytorch_and_the_account_counts_what_ran(client: RecordingClient, name: str) -> None:
    own, network = network_of(name), network_of(name)
    torch.manual_seed(4)
    with FlopCounterMode(display=False, custom_mapping=MORE) as counter:
        loss = own.step()
        forward = counter.get_total_flops()
        loss.backward()
    torch.manual_seed(4)
    with aclgrad.torch.remote_backward(client, strict=True, allow=network.local) as remote:
        network.step().backward()
    torch.testing.assert_close(gradients(network), gradients(own), rtol=1e-4, atol=1e-5)
    sums = Counter(site.whose for site in remote.account.calls.elements())
    assert sums["remote"] == len(client.called)
    assert {site.function for site in remote.account.calls if site.whose == "local"} == network.local
    ran = sums["remote"] + sums["local"] + remote.account.arithmetic
    assert ran + network.joined == counted(own.step())
    assert remote.account.flops.total() == counter.get_total_flops() - forward


def test_a_checkpoint_is_not_computed_again_for_the_account(client: RecordingClient) -> None:
    calls, layer = [], nn.Conv2d(3, 4, 3).double()
    layer.requires_grad_(requires_grad=False)

    def run(input: Tensor) -> Tensor:
        calls.append(1)
        return layer(input).square()

    with aclgrad.torch.remote_backward(client) as remote:
        loss = checkpoint(run, torch.randn(2, 3, 8, 8).double().requires_grad_(), use_reentrant=False).sum()
    assert "0 of 3 backward calls" in str(remote)
    assert len(calls) == 1
    loss.backward()
    assert len(calls) == 2
    assert remote.account.calls.total() == 1


def test_the_work_of_a_llama_is_the_servers(client: RecordingClient) -> None:
    with aclgrad.torch.remote_backward(client) as remote:
        network_of("llama").step().backward()
    calls: Counter[str] = Counter()
    for site, count in remote.account.calls.items():
        calls[site.function] += count
    assert calls == {"silu": 2, "linear": 14, "scaled_dot_product_attention": 2, "smooth_l1_loss": 1}
    assert "\n19 of 60 backward calls are the server's\n" in str(remote)
    assert {site.whose for site in remote.account.calls} == {"remote"}


def test_the_sample_program(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = RecordingClient(server.address)  # the program closes it
    monkeypatch.setattr(aclgrad, "Client", lambda _: client)
    assert train_cnn.main() == 0
    assert Counter(client.called) == {
        "adaptive_avg_pool2d_backward": 50,
        "convolution_backward": 100,
        "linear_backward": 50,
        "cross_entropy_backward": 50,
        "max_pool2d_with_mask_backward": 50,
        "replication_pad2d_backward": 50,
        "threshold_backward": 100,
        "upsample_nearest2d_backward": 50,
    }
    assert "largest difference in 50 steps" in capsys.readouterr().out
