"""Losses beside the rows of the table: targets and weights of all kinds, spellings, and trainings."""

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.torch._account import CallSite

from .conftest import RecordingClient
from .losses import LOSSES, classes
from .table import Call, grad_output_of, random

ROWS, OTHERS, SHARES = random(4, 5), random(4, 5, seed=2), random(4, 5, seed=3).sigmoid()
LABELS = classes((4, 5))
Function = Callable[..., Tensor]


def gradients(function: Function, *tensors: Tensor) -> list[Any]:
    leaves = [each.clone().requires_grad_() for each in tensors]
    output = function(*leaves)
    return [output.detach(), *torch.autograd.grad(output, leaves, grad_output_of(output), allow_unused=True)]


def compared(client: RecordingClient, function: Function, *tensors: Tensor) -> aclgrad.torch.remote_backward:
    """Checks output and gradients of a function within a block against those without."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with aclgrad.torch.remote_backward(client, strict=True) as block:
            found = gradients(function, *tensors)
        expected = gradients(function, *tensors)
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(found[1:], expected[1:], rtol=1e-5, atol=1e-6, equal_nan=True)
    return block


@pytest.mark.parametrize("call", LOSSES, ids=str)
def test_gradients_are_those_of_float64(client: RecordingClient, call: Call) -> None:
    with aclgrad.torch.remote_backward(client, strict=True):
        _, found = call.gradients(call.leaves())
    wide = call.in_dtype(torch.float64)
    _, expected = wide.gradients(wide.leaves())
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


OF_TARGETS: dict[str, tuple[Function, Tensor, Tensor]] = {
    **{
        f"{name}, {reduction}": (
            lambda input, target, name=name, rule=reduction: getattr(functional, name)(input, target, reduction=rule),
            ROWS,
            OTHERS,
        )
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss")
        for reduction in ("none", "mean", "sum")
    },
    "binary_cross_entropy": (
        lambda input, target: functional.binary_cross_entropy(input, target, SHARES), ROWS.sigmoid(), SHARES,
    ),
    "binary_cross_entropy_with_logits": (
        lambda input, target: functional.binary_cross_entropy_with_logits(
            input, target, SHARES[0], pos_weight=SHARES[1], reduction="none"
        ),
        ROWS, SHARES,
    ),
    "kl_div": (partial(functional.kl_div, reduction="sum"), ROWS, SHARES),
    "kl_div of logarithms": (
        lambda input, target: functional.kl_div(input, target, reduction="batchmean", log_target=True), ROWS, OTHERS,
    ),
    "cross_entropy of probabilities": (functional.cross_entropy, ROWS, OTHERS.softmax(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_TARGETS)
def test_targets_have_gradients(client: RecordingClient, name: str) -> None:
    function, input, target = OF_TARGETS[name]
    compared(client, function, input, target)
    assert len(client.called) == 1
    compared(client, lambda each: function(each, each * 0.9), input.sigmoid())
    if "l1" in name or "mse" in name:
        compared(client, lambda each: function(input, each), target)
    elif "of probabilities" not in name:
        with aclgrad.torch.remote_backward(client) as block:
            found = gradients(partial(function, input), target)
        torch.testing.assert_close(found, gradients(partial(function, input), target), rtol=0, atol=0)
        assert {site.whose for site in block.account.calls} == {"local"}

    def penalty(*leaves: Tensor) -> Tensor:
        found = torch.autograd.grad(function(*leaves).square().sum(), leaves, create_graph=True)
        return sum(each.square().sum() for each in found)

    if "cross_entropy of" not in name:  # of softmax there is no second derivative
        with aclgrad.torch.remote_backward(client):
            found = gradients(penalty, input, target)
        torch.testing.assert_close(found, gradients(penalty, input, target), rtol=1e-4, atol=1e-5)


def test_probabilities(client: RecordingClient) -> None:
    shares, images = OTHERS.softmax(1), random(2, 5, 3)
    for reduction in ("none", "mean", "sum"):
        for more in ({}, {"label_smoothing": 0.1}, {"weight": SHARES[0], "label_smoothing": 0.1}):
            options = {"reduction": reduction, **more}
            compared(client, lambda each, given=options: functional.cross_entropy(each, shares, **given), ROWS)
    compared(client, lambda each: functional.cross_entropy(each, images.softmax(1)), images)
    compared(client, lambda each: functional.cross_entropy(each, shares[0]), ROWS[0])
    assert set(client.called) == {"log_softmax_backward"}


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss"])
@pytest.mark.parametrize("target", [OTHERS[:1], OTHERS[:, :1], random(3, 4, 5), random()], ids=str)
def test_targets_broadcast_with_a_warning(client: RecordingClient, name: str, target: Tensor) -> None:
    with aclgrad.torch.remote_backward(client), pytest.warns(UserWarning, match="Using a target size") as caught:
        getattr(functional, name)(ROWS.clone().requires_grad_(), target)
    assert [each.filename for each in caught] == [__file__]
    compared(client, getattr(functional, name), ROWS, target)
    assert len(client.called) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_divergence_by_its_elements_warns_once(client: RecordingClient, dtype: torch.dtype) -> None:
    with aclgrad.torch.remote_backward(client), pytest.warns(UserWarning, match="'mean' divides") as caught:
        functional.kl_div(ROWS.to(dtype).requires_grad_(), SHARES.to(dtype))
    assert len(caught) == 1
    assert dtype is torch.float64 or caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize(
    "loss", [partial(functional.kl_div, target=SHARES), partial(functional.mse_loss, target=SHARES[:1])]
)
def test_what_warns_is_compiled_in_one_graph(client: RecordingClient, loss: Function) -> None:
    compared(client, torch.compile(lambda each: loss(each), backend="aot_eager", fullgraph=True), ROWS)
    assert len(client.called) == 1


def test_logarithms_may_change_after_their_divergence(client: RecordingClient) -> None:
    def changed(each: Tensor, target: Tensor) -> Tensor:
        logarithms = target.clone()
        loss = functional.kl_div(each, logarithms, reduction="sum", log_target=True)
        logarithms.add_(1)
        return loss

    compared(client, partial(changed, target=OTHERS), ROWS)


SPELLINGS: dict[str, Function] = {
    "size_average": lambda each: functional.mse_loss(each, OTHERS, size_average=False),
    "reduce": lambda each: functional.binary_cross_entropy_with_logits(each, SHARES, reduce=False),
    "legacy nll": lambda each: functional.nll_loss(each, LABELS, None, False),
    "legacy divergence": lambda each: functional.kl_div(each, SHARES, reduce=False),
    "beta 0": lambda each: functional.smooth_l1_loss(each, OTHERS, beta=0),
    "positional": lambda each: functional.cross_entropy(each, LABELS, SHARES[0], None, 2, None, "sum", 0.1),
    "torch.kl_div": lambda each: torch.kl_div(each, SHARES, 2),
    "MSELoss": lambda each: nn.MSELoss(reduction="sum")(each, OTHERS),
    "L1Loss": lambda each: nn.L1Loss()(each, OTHERS),
    "SmoothL1Loss": lambda each: nn.SmoothL1Loss(beta=0.2)(each, OTHERS),
    "BCEWithLogitsLoss": lambda each: nn.BCEWithLogitsLoss(pos_weight=SHARES[0])(each, SHARES),
    "KLDivLoss": lambda each: nn.KLDivLoss(reduction="batchmean", log_target=True)(each, OTHERS),
    "NLLLoss": lambda each: nn.NLLLoss(SHARES[0], ignore_index=2)(each, LABELS),
    "CrossEntropyLoss": lambda each: nn.CrossEntropyLoss(label_smoothing=0.1)(each, LABELS),
    "CTCLoss": lambda each: nn.CTCLoss()(each[:, None], LABELS[:2].clamp(1), (4,), (2,)),
    "torch.ctc_loss": lambda each: torch.ctc_loss(each[:, None], LABELS[:2].clamp(1), [4], [2], 0, 0, True),
    "small classes": lambda each: functional.nll_loss(each, LABELS.to(torch.uint8)),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings(client: RecordingClient, name: str) -> None:
    compared(client, SPELLINGS[name], ROWS)
    assert len(client.called) == 1


BAD: dict[str, Function] = {
    "no class": lambda each: functional.cross_entropy(each, torch.full((4,), 5)),
    "a negative class": lambda each: functional.nll_loss(each, torch.full((4,), -1)),
    "fewer classes": lambda each: functional.nll_loss(each, LABELS[:3]),
    "a weight too few": lambda each: functional.cross_entropy(each, LABELS, SHARES[0, 1:]),
    "another size": lambda each: functional.binary_cross_entropy_with_logits(each, SHARES[:1]),
    "no reduction": lambda each: functional.mse_loss(each, OTHERS, reduction="mean of the batch"),
    "a negative beta": lambda each: functional.smooth_l1_loss(each, OTHERS, beta=-1.0),
    "no shares": lambda each: functional.cross_entropy(each, LABELS[:, None].expand(4, 5)),
    "too much smoothing": lambda each: functional.cross_entropy(each, LABELS, label_smoothing=1.5),
    "no probabilities": lambda each: functional.binary_cross_entropy(each * 9, SHARES),
    "sizes that do not broadcast": lambda each: functional.l1_loss(each, OTHERS[:3]),
    "targets with gradients of weights": lambda each: functional.binary_cross_entropy(SHARES, SHARES, each),
    "no target": lambda each: functional.cross_entropy(each, None),
    "classes of another dtype": lambda each: functional.cross_entropy(each, LABELS.int()),
    "no number to ignore": lambda each: functional.cross_entropy(each, LABELS, ignore_index=1.5),
    "lengths of two kinds": lambda each: functional.ctc_loss(each[:, None], LABELS[:2], (4,), torch.tensor([2])),
    "a length": lambda each: functional.ctc_loss(each[:, None], LABELS[:2], 4, 2),
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("name", BAD)
def test_what_pytorch_refuses_is_refused_alike(client: RecordingClient, name: str) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - of any kind
        BAD[name](ROWS.clone().requires_grad_())
    for strict in (False, True):
        with aclgrad.torch.remote_backward(client, strict=strict), pytest.raises(type(expected.value)) as found:
            BAD[name](ROWS.clone().requires_grad_())
        assert str(found.value) == str(expected.value)


def test_what_fails_in_the_bridge_alone_stays_local(client: RecordingClient) -> None:
    """Label smoothing divides by the classes: none here."""
    loss = partial(functional.cross_entropy, target=torch.zeros(4, dtype=torch.int64), ignore_index=0)
    with aclgrad.torch.remote_backward(client) as block:
        found = gradients(partial(loss, label_smoothing=0.1), ROWS[:, :0])
    torch.testing.assert_close(found, gradients(partial(loss, label_smoothing=0.1), ROWS[:, :0]), equal_nan=True)
    assert {site.because for site in block.account.calls} == {"the bridge takes no such arguments (ZeroDivisionError)"}


def test_small_classes_of_no_image_have_no_gradient_as_in_pytorch(client: RecordingClient) -> None:
    with aclgrad.torch.remote_backward(client):
        loss = functional.nll_loss(random(0, 5, 2).requires_grad_(), torch.empty(0, 2, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="expected scalar type Long but found Byte"):
        loss.backward()


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weight", [None, torch.zeros(5), -SHARES[0], torch.tensor([1, torch.nan, 0, 1, 1])], ids=str)
def test_ignored_classes_and_odd_weights(client: RecordingClient, smoothing: float, weight: Tensor | None) -> None:
    """All of them ignored is 0 / 0, as in PyTorch."""
    for labels in (LABELS, torch.full((4,), 3), torch.full((4,), 3, dtype=torch.uint8)):
        for reduction in ("mean", "sum"):
            options = {"reduction": reduction, "ignore_index": 3, "weight": weight}
            compared(
                client,
                lambda each, labels=labels, given=options: functional.cross_entropy(
                    each, labels, label_smoothing=smoothing, **given
                ),
                ROWS,
            )
            if not smoothing:
                compared(
                    client, lambda each, labels=labels, given=options: functional.nll_loss(each, labels, **given), ROWS
                )


def test_large_logits(client: RecordingClient) -> None:
    logits = torch.tensor([[1e38, -1e38], [-1e38, 1e38], [60.0, -60.0]])
    compared(client, lambda each: functional.binary_cross_entropy_with_logits(each, logits.sigmoid()), logits)
    compared(client, lambda each: functional.cross_entropy(each, torch.tensor([0, 1, 1])), logits)


@pytest.mark.parametrize("name", ["l1_loss", "mse_loss"])
def test_the_weight_that_pytorch_hides_from_modes_counts(client: RecordingClient, name: str) -> None:
    for reduction in ("none", "mean", "sum"):
        compared(
            client,
            lambda each, rule=reduction: getattr(functional, name)(each, OTHERS, weight=SHARES, reduction=rule),
            ROWS,
        )
        with aclgrad.torch.remote_backward(client):
            found = getattr(functional, name)(ROWS, OTHERS, weight=SHARES, reduction=reduction)
        torch.testing.assert_close(found, getattr(functional, name)(ROWS, OTHERS, weight=SHARES, reduction=reduction))


def test_a_loss_is_one_call_of_its_layer(client: RecordingClient) -> None:
    network = nn.Sequential(nn.Linear(5, 5), nn.LogSoftmax(-1))
    with aclgrad.torch.remote_backward(client, strict=True) as block:
        nn.NLLLoss()(network(ROWS), LABELS).backward()
        nn.CrossEntropyLoss(label_smoothing=0.1)(network[0](ROWS), LABELS).backward()
    assert block.account.calls == {
        CallSite("linear", "Linear", None): 1,
        CallSite("linear", "Sequential.0", None): 1,
        CallSite("log_softmax", "Sequential.1", None): 1,
        CallSite("nll_loss", "NLLLoss", None): 1,
        CallSite("cross_entropy", "CrossEntropyLoss", None): 1,
    }
    assert block.account.arithmetic == 0


LAYERS: Sequence[tuple[str, Function, nn.Module]] = (
    ("mse_loss", partial(functional.mse_loss, target=OTHERS), nn.Identity()),
    ("l1_loss", partial(functional.l1_loss, target=OTHERS), nn.Identity()),
    ("smooth_l1_loss", partial(functional.smooth_l1_loss, target=OTHERS), nn.Identity()),
    ("binary_cross_entropy", lambda out: functional.binary_cross_entropy(out, SHARES), nn.Sigmoid()),
    ("binary_cross_entropy_with_logits",
     lambda out: functional.binary_cross_entropy_with_logits(out, SHARES), nn.Identity()),
    ("kl_div", lambda out: functional.kl_div(out, SHARES, reduction="batchmean"), nn.LogSoftmax(-1)),
    ("nll_loss", lambda out: functional.nll_loss(out, LABELS), nn.LogSoftmax(-1)),
    ("cross_entropy", lambda out: functional.cross_entropy(out, LABELS), nn.Identity()),
    ("cross_entropy", lambda out: functional.cross_entropy(out, LABELS, label_smoothing=0.1), nn.Identity()),
    ("log_softmax", partial(functional.cross_entropy, target=SHARES.softmax(1)), nn.Identity()),
    ("cross_entropy", lambda out: functional.cross_entropy(out.T[None], LABELS[None]), nn.Identity()),
    ("ctc_loss", lambda out: functional.ctc_loss(out[:, None], LABELS[:2].clamp(1), (4,), (2,)), nn.LogSoftmax(-1)),
)  # fmt: skip


@pytest.mark.parametrize(("name", "loss", "last"), LAYERS, ids=[each[0] for each in LAYERS])
def test_twenty_steps_stay_with_those_of_pytorch(
    client: RecordingClient, name: str, loss: Function, last: nn.Module
) -> None:
    def losses(block: Any) -> Tensor:
        torch.manual_seed(3)
        network = nn.Sequential(nn.Linear(5, 8), nn.Softplus(), nn.Linear(8, 5), last)
        optimizer, found = torch.optim.SGD(network.parameters(), 0.05), []
        for _ in range(20):
            optimizer.zero_grad()
            with block:
                value = loss(network(ROWS))
                value.backward()
            optimizer.step()
            found.append(value.detach())
        return torch.stack(found)

    remote = aclgrad.torch.remote_backward(client, strict=True)
    found, expected = losses(remote), losses(nullcontext())
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
    assert expected[-1] < expected[0]
    assert CallSite(name, "", None) in remote.account.calls
