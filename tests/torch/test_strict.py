"""Strict blocks refuse every function that stays local, and `allow` takes the names that the account prints."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.torch._account import CallSite
from aclgrad.torch._graph import UNSEEN
from aclgrad.torch._nodes import Kind, _kind_of

from .conftest import RecordingClient

IMAGES, ROWS = torch.randn(2, 3, 8, 8), torch.randn(4, 5)
CLASSES = torch.tensor([1, 0, 2, 4])
LOCAL: dict[str, tuple[nn.Module | Callable[[Tensor], Tensor], Tensor, str]] = {
    "conv2d": (nn.Conv2d(3, 4, 3).double(), IMAGES.double(), "conv2d"),
    "conv_transpose2d": (nn.ConvTranspose2d(3, 4, 3).double(), IMAGES.double(), "conv_transpose2d"),
    "conv_tbc": (lambda each: torch.conv_tbc(each, IMAGES[:, 0], IMAGES[0, 0, 0]), IMAGES[0], "conv_tbc"),
    "multi_dot": (lambda each: torch.linalg.multi_dot([each, each.mT, each]), ROWS, "linalg_multi_dot"),
    "matmul": (lambda each: each @ each.mT, IMAGES.double(), "matmul"),
    "attention": (lambda each: functional.scaled_dot_product_attention(each, each, each), IMAGES.double(),
                  "scaled_dot_product_attention"),
    "alpha_dropout": (nn.AlphaDropout(0.5), ROWS, "alpha_dropout"),
    "dropout2d": (nn.Dropout2d(0.5), IMAGES, "dropout2d"),
    "feature_alpha_dropout": (nn.FeatureAlphaDropout(0.5), IMAGES, "feature_alpha_dropout"),
    "huber_loss": (lambda each: functional.huber_loss(each, ROWS + 1), ROWS, "huber_loss"),
    "mse_loss": (lambda each: functional.mse_loss(each, ROWS.double()), ROWS.double(), "mse_loss"),
    "cross_entropy": (lambda each: functional.cross_entropy(each, CLASSES), ROWS.double(), "cross_entropy"),
    "lstm": (lambda each: nn.LSTM(5, 4)(each[:, None])[0], ROWS, "lstm"),
    "max_pool3d": (nn.MaxPool3d(2), IMAGES[:, :2, None].expand(-1, -1, 2, 8, 8), "max_pool3d"),
    "adaptive_max_pool2d": (nn.AdaptiveMaxPool2d(2), IMAGES, "adaptive_max_pool2d"),
    "instance_norm": (nn.InstanceNorm2d(3), IMAGES, "instance_norm"),
    "threshold": (nn.Threshold(0.1, 0), ROWS.double(), "threshold"),
    "softsign": (nn.Softsign(), ROWS, "softsign"),
    "tanhshrink": (nn.Tanhshrink(), ROWS, "tanhshrink"),
    "rrelu": (nn.RReLU(), ROWS, "rrelu"),
    "soft_margin_loss": (lambda each: functional.soft_margin_loss(each, ROWS.sign()), ROWS, "soft_margin_loss"),
    "multi_margin_loss": (lambda each: functional.multi_margin_loss(each, CLASSES), ROWS, "multi_margin_loss"),
    "bicubic": (nn.Upsample(scale_factor=2, mode="bicubic"), IMAGES, "interpolate"),
    "index": (lambda each: each[CLASSES % 4], ROWS, "index"),
}  # fmt: skip


class Wrapped(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, input: Tensor) -> Tensor:
        return self.function(input)


@pytest.mark.parametrize("name", LOCAL)
def test_what_stays_local_is_named_with_its_layer_refused_and_allowed(client: RecordingClient, name: str) -> None:
    function, input, expected = LOCAL[name]
    network = nn.Sequential(nn.Identity(), Wrapped(function))

    def step() -> None:
        network(input.clone().requires_grad_()).sum().backward()

    with aclgrad.torch.remote_backward(client) as remote:
        step()
    (site,) = (each for each in remote.account.calls if each.whose == "local")
    assert site.function == expected
    assert site.layer.startswith("Sequential.1")
    assert site.because != UNSEEN
    with (
        aclgrad.torch.remote_backward(client, strict=True),
        pytest.raises(aclgrad.InvalidFieldError, match=rf'^.*{expected}.* of Sequential\.1.* allow=\["{expected}"\]'),
    ):
        step()
    with aclgrad.torch.remote_backward(client, strict=True, allow=(expected,)):
        step()


def test_plain_arithmetic_is_no_reason_to_refuse(client: RecordingClient) -> None:
    with aclgrad.torch.remote_backward(client, strict=True) as remote:
        leaf = (ROWS.abs() + 1).requires_grad_()
        mixed = (leaf * 2 - 1 / leaf + leaf.sqrt()).exp().log().clamp(0, 3).float().double().cumsum(0)
        torch.where(mixed > 1, mixed, -mixed).pow(2).mean(0).norm().backward()
    assert not remote.account.calls
    assert remote.account.arithmetic == 16
    assert str(remote).endswith("0 of 16 backward calls are the server's")


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor", "ignore:.*should not be inst:DeprecationWarning")
def test_a_compiled_graph_is_refused_for_its_kernels_alone(client: RecordingClient) -> None:
    def plain(each: Tensor) -> Tensor:
        each = (each.contiguous().flatten()[None] * 2 - 1 / 3).clip(0).reshape(5, 4).mT.float().square()
        each += torch.cat([each[:1], each[1:]]).multiply(2) / 3
        return functional.relu(-each).sum(0, keepdim=True).to(torch.float32).expand(2, 5)

    def kernels(each: Tensor) -> Tensor:
        return torch.logaddexp(functional.rrelu(plain(each)), plain(each))

    for function, allow in ((plain, ()), (kernels, ("logaddexp", "rrelu"))):
        compiled = torch.compile(function, backend="aot_eager")
        with aclgrad.torch.remote_backward(client, strict=True, allow=allow):
            compiled(ROWS.clone().requires_grad_()).sum().backward()
    with (
        pytest.raises(aclgrad.InvalidFieldError, match=r'rrelu would stay.*allow=\["logaddexp", "rrelu"\]'),
        aclgrad.torch.remote_backward(client, strict=True),
    ):
        compiled(ROWS.clone().requires_grad_()).sum().backward()


def test_an_error_counts_and_names_all_functions(client: RecordingClient) -> None:
    network = nn.Sequential(
        nn.RReLU(), nn.ReLU(), nn.RReLU(), nn.AlphaDropout(), nn.Flatten(), nn.Softsign(), nn.Linear(192, 2)
    )
    with pytest.raises(aclgrad.InvalidFieldError) as caught, aclgrad.torch.remote_backward(client, strict=True):
        loss = network(IMAGES.clone().requires_grad_()).sum()
    assert 'allow=["alpha_dropout", "rrelu", "softsign"]' in str(caught.value)
    with aclgrad.torch.remote_backward(client, strict=True, allow={"softsign", "alpha_dropout"}):
        loss = network(IMAGES.clone().requires_grad_()).sum()
        with pytest.raises(aclgrad.InvalidFieldError, match=r"\(RreluWithNoiseBackward0, 2 of the backward calls\)"):
            loss.backward()


@pytest.mark.parametrize("allow", ["dropout", [1]])
def test_allow_takes_names(client: RecordingClient, allow: object) -> None:
    with pytest.raises(aclgrad.InvalidSettingError, match=r"allow is no list of names.*print\(remote\)"):
        aclgrad.torch.remote_backward(client, allow=allow)  # type: ignore[arg-type]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, input: Tensor) -> Tensor:
        return input * 2

    @staticmethod
    def backward(ctx: object, grad_output: Tensor) -> Tensor:
        return grad_output * 2


class Mul(Doubled):
    """Has the name of arithmetic."""


@pytest.mark.parametrize("function", [Doubled, Mul])
def test_a_function_of_a_user_is_a_kernel(client: RecordingClient, function: type[Doubled]) -> None:
    with aclgrad.torch.remote_backward(client) as remote:
        function.apply(ROWS.clone().requires_grad_()).sum().backward()
    name = function.__name__
    assert remote.account.calls == {CallSite(name, "", f"there is no operator for {name}"): 1}


def test_a_node_counts_once_however_often_backward_runs(client: RecordingClient) -> None:
    leaf = IMAGES.clone().requires_grad_()
    with aclgrad.torch.remote_backward(client) as remote:
        pooled = functional.max_pool2d(leaf, 2)
        first, second = pooled.square().sum(), pooled.exp().sum()
        first.backward(retain_graph=True)
        first.backward(retain_graph=True)
        torch.autograd.grad(second, leaf, retain_graph=True)
        torch.autograd.backward([first, second])
        functional.avg_pool2d(leaf, 2)  # nobody wants its gradient
    assert remote.account.calls == {CallSite("max_pool2d", "", None): 1}
    assert remote.account.arithmetic == 4


def test_a_graph_counts_for_the_block_that_saw_it_being_made(client: RecordingClient) -> None:
    leaf = IMAGES.clone().requires_grad_()
    with aclgrad.torch.remote_backward(client) as first:
        hidden = nn.RReLU()(leaf)
        with aclgrad.torch.remote_backward(client) as second:
            functional.max_pool2d(hidden, 2).sum().backward()
    assert first.account.calls == {CallSite("rrelu", "RReLU", "there is no operator for rrelu"): 1}
    assert second.account.calls == {CallSite("max_pool2d", "", None): 1}


def test_views_of_pytorch_are_no_calls() -> None:
    """PyTorch has a second node for each function that returns a view, for the form of it that copies."""
    views = [name for name in dir(torch._C._functions) if name.endswith("_copy") and not name.startswith("Test")]  # noqa: SLF001
    assert len(views) > 20
    assert {_kind_of(name, False) for name in views} == {Kind.MOVE}
