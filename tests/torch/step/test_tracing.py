"""What a step refuses, before anything is sent, and what it leaves to PyTorch."""

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.torch.step import places

from . import models_with_faults as faulty
from .test_gradients import X, Y, assert_same_gradients, loss_of, network, step_of


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            faulty.Branching(),
            r"depends on values of tensors in Branching, models_with_faults.py:\d+, `return y if y.sum",
        ),
        (faulty.Reading(), r"reads a value, by aten._local_scalar_dense.default in Reading, models_with_faults.py:\d+"),
        (faulty.Choosing(), r"shape depends on values, by aten.index.Tensor in Choosing, models_with_faults.py:\d+"),
        (
            faulty.OutsideOfPyTorch(),
            r"fails while it is traced, in OutsideOfPyTorch, models_with_faults.py:\d+, `return",
        ),
        (nn.Linear(8, 3, device="meta"), r"weight is on the device meta; move the model"),
        (nn.Linear(8, 3).requires_grad_(False), "loss depends on no parameter that requires a gradient; unfreeze one"),
        (nn.Linear(7, 3), r"fails while it is traced, in Linear, "),
        (nn.Module(), r"fails while it is traced, in Module, .*NotImplementedError: Module \[Module\] is missing"),
    ],
)
def test_what_cannot_be_traced_is_refused(client: aclgrad.Client, model: nn.Module, message: str) -> None:
    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return model(x).square().mean()

    with pytest.raises(aclgrad.InvalidFieldError, match=message):
        step_of(model, client, loss)(X, Y)
    assert all(each.grad is None for each in model.parameters())


def test_arguments_are_checked(client: aclgrad.Client) -> None:
    model = network()
    for message, arguments, options in (
        ("model is a int; give a torch.nn.Module", (3, loss_of, client), {}),
        ("loss_function is a int; give a function", (model, 3, client), {}),
        ("client is a str; give an aclgrad.Client", (model, loss_of, "127.0.0.1:1"), {}),
        ("verify_every is -1; give a number of steps", (model, loss_of, client), {"verify_every": -1}),
    ):
        with pytest.raises(aclgrad.AclgradError, match=message):
            aclgrad.torch.remote_step(*arguments, **options)  # type: ignore[arg-type]
    with pytest.raises(aclgrad.InvalidFieldError, match="step has not run; call it with a batch first"):
        step_of(model, client).explain()
    for loss, message in (
        (functional.cross_entropy, "TypeError: .*the loss function is called with the model and the batch"),
        (lambda model, x, y: {"loss": model(x)}, "loss_function returned a dict; return the loss, or a tuple"),
        (lambda model, x, y: x.sum(), "loss depends on no parameter"),
    ):
        with pytest.raises(aclgrad.InvalidFieldError, match=message):
            step_of(model, client, loss)(X, Y)


def test_a_step_of_float64_has_nothing_for_a_server(client: aclgrad.Client) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=r"nothing that a server computes: .*is float64"):
        step_of(network().double(), client, strict=False)(X.double(), Y)


def test_functions_without_operators_run_here(client: aclgrad.Client) -> None:
    """Complex numbers are for no operator."""
    torch.manual_seed(3)
    model, other = faulty.Waves(), faulty.Waves()
    other.load_state_dict(model.state_dict())
    step = step_of(model, client, strict=False)
    step(X, Y)
    loss_of(other, X, Y).backward()
    assert_same_gradients(model, other)
    text = step.explain()
    assert text.startswith("step of 3 programs: ")
    assert "1 x aten._fft_r2c.default in Waves, models_with_faults.py:" in text
    assert "in the gradient of Waves, models_with_faults.py:" in text
    with pytest.raises(aclgrad.InvalidFieldError, match=r"without an operator, of which aten._fft_r2c.default"):
        step_of(model, client, strict=True)(X, Y)


def test_what_has_no_parameter_in_it_runs_here_first(client: aclgrad.Client) -> None:
    """So rotary positions, whose sines have no operator, cut nothing."""

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        angles = x.square().mul(2).sin()
        return functional.cross_entropy(model(x + angles), y)

    model = network()
    other = network()
    step = step_of(model, client, loss)
    step(X, Y)
    loss(other, X, Y).backward()
    assert_same_gradients(model, other)
    assert step.explain().startswith("step of 1 program: ")


def test_a_function_may_have_a_gradient_of_its_own(client: aclgrad.Client) -> None:
    torch.manual_seed(4)
    model, other = faulty.WithOwnGradient(), faulty.WithOwnGradient()
    other.load_state_dict(model.state_dict())
    step_of(model, client)(X, Y)
    loss_of(other, X, Y).backward()
    assert_same_gradients(model, other)


def test_a_graph_may_have_many_steps_but_not_any_number(
    client: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = faulty.Long(4500)
    step = step_of(model, client, verify_every=0)
    step(X, Y)
    assert step.explain().startswith("step of 2 programs: ")
    torch.testing.assert_close(step(X, Y), loss_of(model, X, Y).detach(), rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(places, "MOST_NODES", 1000)
    with pytest.raises(aclgrad.LimitExceededError, match=r"step has more than 1000 functions by Long, models_with"):
        step_of(model, client)(X, Y)


def of_each_row(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda row: model(row).square().sum())(x).mean()


def of_slopes(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    (slopes,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    return slopes.square().sum()


def in_parts(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    hidden = model(x).clone()
    hidden[:, 0] = 0
    hidden[1] += 1
    with torch.profiler.record_function("a mark"):
        return functional.cross_entropy(hidden, y, label_smoothing=0.1, weight=torch.tensor([1.0, 2.0, 3.0]))


@pytest.mark.parametrize("loss", [of_each_row, of_slopes, in_parts])
def test_losses_may_do_what_pytorch_can(client: aclgrad.Client, loss: Any) -> None:
    """Gradients of gradients, transforms, changes in place, marks for profilers."""
    model, other = network(nn.Tanh()), network(nn.Tanh())
    step_of(model, client, loss)(X, Y)
    loss(other, X, Y).backward()
    assert_same_gradients(model, other)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("wrapped", [torch.compile, nn.DataParallel])
def test_wrapped_models_are_traced_as_what_they_wrap(client: aclgrad.Client, wrapped: Any) -> None:
    model, other = network(), network()
    step_of(wrapped(model), client)(X, Y)
    loss_of(other, X, Y).backward()
    assert_same_gradients(model, other)


@pytest.mark.parametrize("layer", [nn.LSTM(8, 6, batch_first=True), nn.GRU(8, 6, 2, batch_first=True)])
def test_recurrent_layers_are_traced_as_what_they_are_made_of(client: aclgrad.Client, layer: nn.Module) -> None:
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x)[0].square().mean()

    model, x = layer, X.reshape(2, 2, 8)
    step = step_of(model, client, loss)
    step(x)
    other = copy.deepcopy(model)
    other.zero_grad()
    loss(other, x).backward()
    assert_same_gradients(model, other)


def test_changes_of_inputs_and_sparse_gradients_are_refused(client: aclgrad.Client) -> None:
    def scaled(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return loss_of(model, x.mul_(2), y)

    for model, loss, message in (
        (network(), scaled, "changes a parameter or a tensor of the batch in place"),
        (nn.Embedding(3, 2, sparse=True), lambda model, x, y: model(y).sum(), "sparse gradient; leave sparse=True out"),
    ):
        with pytest.raises(aclgrad.InvalidFieldError, match=message):
            step_of(model, client, loss)(X, Y)
    with aclgrad.torch.remote_backward(client), pytest.raises(aclgrad.InvalidFieldError, match="leave the block"):
        step_of(network(), client)(X, Y)


def test_tensors_from_elsewhere_have_the_values_of_each_step(client: aclgrad.Client) -> None:
    teacher, weight = nn.Linear(8, 3).requires_grad_(False), torch.ones(3)

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(x), y, weight=weight) + (model(x) - teacher(x)).square().mean()

    model = network()
    other, step = copy.deepcopy(model), step_of(model, client, loss, verify_every=0)
    for _ in range(3):
        step(X, Y)
        loss(other, X, Y).backward()
        with torch.no_grad():
            teacher.weight.mul_(2)
            weight[0] += 1
    assert_same_gradients(model, other)


def test_parameters_and_changes_of_elsewhere_are_refused(client: aclgrad.Client) -> None:
    outside = nn.Linear(3, 3), nn.BatchNorm1d(3)
    for each, message in zip(outside, ("uses a parameter", "changes a tensor"), strict=True):

        def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor, each: nn.Module = each) -> torch.Tensor:
            return functional.cross_entropy(each(model(x)), y)

        with pytest.raises(aclgrad.InvalidFieldError, match=f"{message} that is neither the model's nor the batch's"):
            step_of(network(), client, loss)(X, Y)
    assert int(outside[1].num_batches_tracked) == 0


def test_a_foreign_parameter_in_a_list_is_refused(client: aclgrad.Client) -> None:
    """Its gradient would be lost."""
    bias = nn.Parameter(torch.ones(4, 1))

    def loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(torch.cat([model(x), bias], 1), y)

    with pytest.raises(aclgrad.InvalidFieldError, match="uses a parameter that is neither the model's nor the batch's"):
        step_of(network(), client, loss)(X, Y)


def test_functions_that_pytorch_decomposes_wrongly_run_here(client: aclgrad.Client) -> None:
    targets = torch.tensor([[2, 0, -1], [1, -1, 0], [0, 1, 2], [-1, 0, 0]])

    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return functional.multilabel_margin_loss(model(x), targets) + torch.logit(model(x).sigmoid(), 1e-6).mean()

    model, other = network(), network()
    step_of(model, client, loss, strict=False)(X)
    loss(other, X).backward()
    assert_same_gradients(model, other)


def test_threads_may_trace_at_once(client: aclgrad.Client) -> None:
    models = [network() for _ in range(4)]
    steps = [step_of(each, client) for each in models]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda step: step(X, Y), steps))
    for each in models[1:]:
        assert_same_gradients(each, models[0])


def test_a_trace_leaves_the_model_as_it_is(client: aclgrad.Client) -> None:
    """Otherwise a tensor without values that it keeps would be there in the next call."""

    class Keeping(nn.Linear):
        kept: torch.Tensor | None = None

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if self.kept is None:
                self.kept = torch.arange(3) * 0.5
            return super().forward(x) * self.kept

    model = Keeping(8, 3)
    step_of(model, client, verify_every=0)(X, Y)
    assert model.kept is None
    step_of(model, client)(X, Y)


def test_targets_are_checked_by_the_server(client: aclgrad.Client) -> None:
    with pytest.raises(
        aclgrad.InvalidFieldError, match=r"nll_loss, test_gradients.py:\d+.*: inputs\[target\].data has 7"
    ):
        step_of(network(), client)(X, Y + 7)


def test_what_is_not_a_number_stays_so(client: aclgrad.Client) -> None:
    model = network(nn.ReLU())
    assert step_of(model, client)(X * torch.nan, Y).isnan()
    assert all(each.grad.isnan().any() for each in model.parameters() if each.grad is not None)


def keys_of(step: aclgrad.torch.RemoteStep) -> int:
    return len(step._kept)  # noqa: SLF001 - traces are seen only by the time that they take


def test_what_a_trace_depends_on_is_its_key(client: aclgrad.Client) -> None:
    model = network(nn.Dropout(0.0))
    step, count = step_of(model, client), 0

    def is_new(*batch: Any) -> bool:
        nonlocal count
        before, _ = count, step(*batch)
        count = keys_of(step)
        return count > before

    assert is_new(X, Y)
    assert not is_new(X * 2, Y)
    assert is_new(X[:2], Y[:2])
    assert is_new(X.T.contiguous().T, Y)
    model.eval()
    assert is_new(X, Y)
    model[0].bias.requires_grad_(False)
    assert is_new(X, Y)
    with torch.autocast("cpu", torch.bfloat16):
        assert is_new(X, Y)
    with torch.no_grad():
        assert is_new(X, Y)
    model[0].register_forward_hook(lambda *_: None)
    assert is_new(X, Y)
    torch.use_deterministic_algorithms(True)
    try:
        assert is_new(X, Y)
    finally:
        torch.use_deterministic_algorithms(False)
    step.reset()
    assert keys_of(step) == 0
