"""What a step does with gradients, buffers and results: the same as PyTorch's `backward`."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import aclgrad
import aclgrad.torch

X, Y = torch.linspace(-2, 2, 32).reshape(4, 8), torch.tensor([0, 1, 2, 1])


def loss_of(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return functional.cross_entropy(model(x), y)


def network(*middle: nn.Module) -> nn.Module:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(8, 6), *middle, nn.Linear(6, 3))


def step_of(model: nn.Module, client: aclgrad.Client, loss: Any = loss_of, **options: Any) -> aclgrad.torch.RemoteStep:
    return aclgrad.torch.remote_step(model, loss, client, **{"verify_every": 1, "strict": True, **options})


def assert_same_gradients(model: nn.Module, other: nn.Module, tolerance: float = 1e-5) -> None:
    for one, expected in zip(model.parameters(), other.parameters(), strict=True):
        if expected.grad is None:
            assert one.grad is None
        else:
            assert one.grad is not None
            assert one.grad.dtype == expected.grad.dtype
            torch.testing.assert_close(one.grad, expected.grad, rtol=tolerance, atol=tolerance)


def test_gradients_are_added(client: aclgrad.Client) -> None:
    model = network(nn.GELU())
    other, step = copy.deepcopy(model), step_of(model, client)
    for scale in (1.0, 0.5, -2.0):
        step(X * scale, Y)
        loss_of(other, X * scale, Y).backward()
    assert_same_gradients(model, other)
    assert step(X, Y).grad_fn is None


def test_frozen_and_unused_parameters_have_none(client: aclgrad.Client) -> None:
    model = network(nn.ReLU())
    model[0].bias.requires_grad_(False)
    model.register_parameter("unused", nn.Parameter(torch.ones(3)))
    other = copy.deepcopy(model)
    step_of(model, client)(X, Y)
    loss_of(other, X, Y).backward()
    assert_same_gradients(model, other)


def test_tied_weights_have_the_sum(client: aclgrad.Client) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    model[2].weight = model[0].weight
    other = copy.deepcopy(model)

    def loss(model: nn.Module, x: Tensor) -> Tensor:
        return functional.mse_loss(model(x), x)

    step_of(model, client, loss)(X)
    loss(other, X).backward()
    assert_same_gradients(model, other)


def test_a_gradient_of_the_loss_scales_them(client: aclgrad.Client) -> None:
    model = network(nn.SiLU())
    other, step = copy.deepcopy(model), step_of(model, client)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    step(X, Y, gradient=scaler.scale(torch.ones(())))
    loss_of(other, X, Y).backward(torch.tensor(1024.0))
    assert_same_gradients(model, other, 1e-3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler.unscale_(optimizer)
    scaler.step(optimizer)


def test_a_loss_of_many_elements_needs_a_gradient(client: aclgrad.Client) -> None:
    def each(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(model(x), y, reduction="none")

    model = network()
    other, step = copy.deepcopy(model), step_of(model, client, each)
    with pytest.raises(aclgrad.InvalidFieldError, match=r"loss has the shape \(4,\); return a scalar"):
        step(X, Y)
    with pytest.raises(aclgrad.InvalidFieldError, match=r"gradient has the shape \(3,\), and the loss \(4,\)"):
        step(X, Y, gradient=torch.ones(3))
    assert step(X, Y, gradient=torch.tensor([1.0, 0.0, 2.0, -1.0])).shape == (4,)
    each(other, X, Y).backward(torch.tensor([1.0, 0.0, 2.0, -1.0]))
    assert_same_gradients(model, other)


def test_hooks_of_parameters_run(client: aclgrad.Client) -> None:
    model = network()
    other, seen = copy.deepcopy(model), []
    for each in (model, other):
        each[0].weight.register_hook(lambda gradient: gradient * 2)
        each[0].bias.register_post_accumulate_grad_hook(lambda parameter: seen.append(parameter.grad.clone()))
    step_of(model, client)(X, Y)
    loss_of(other, X, Y).backward()
    assert_same_gradients(model, other)
    torch.testing.assert_close(*seen)


def test_further_results_come_back_in_their_structure(client: aclgrad.Client) -> None:
    def with_more(model: nn.Module, x: Tensor, y: Tensor) -> Any:
        logits = model(x)
        right = (logits.argmax(1) == y).sum()
        return functional.cross_entropy(logits, y), {"logits": logits, "right": right, "input": x, "name": "batch"}

    model = network()
    step = step_of(model, client, with_more, strict=False)
    loss, more = step(X, Y)
    logits = model(X)
    torch.testing.assert_close(more["logits"], logits.detach(), rtol=1e-5, atol=1e-6)
    assert (more["right"], more["name"]) == (int((logits.argmax(1) == Y).sum()), "batch")
    assert loss.shape == ()
    assert not more["logits"].requires_grad
    more["input"].zero_()
    assert X.abs().sum() > 0, "the batch is its caller's"
    assert step.explain().startswith("step of 1 program"), "what runs here last cuts nothing"


def test_running_statistics_are_pytorchs(client: aclgrad.Client) -> None:
    model = network(nn.BatchNorm1d(6), nn.ReLU(inplace=True))
    other, step = copy.deepcopy(model), step_of(model, client)
    for scale in (1.0, 2.0):
        step(X * scale, Y)
        loss_of(other, X * scale, Y).backward()
    for each in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(getattr(model[1], each), getattr(other[1], each))
    model.eval()
    other.eval()
    before = copy.deepcopy(model.state_dict())
    step(X, Y)
    loss_of(other, X, Y).backward()
    assert_same_gradients(model, other, 1e-4)
    assert all(torch.equal(before[name], each) for name, each in model.state_dict().items())


class Counting(nn.Module):
    """Keeps a mean in a buffer that it assigns anew, and another one that it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 3)
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor) -> Tensor:
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        self.seen += len(x)
        logits: Tensor = self.linear(x - self.mean)
        return logits


def test_buffers_change(client: aclgrad.Client) -> None:
    model = Counting()
    other, step, buffer = copy.deepcopy(model), step_of(model, client), model.mean
    for _ in range(2):
        step(X, Y)
        loss_of(other, X, Y).backward()
    torch.testing.assert_close(model.mean, other.mean)
    assert model.mean is buffer
    assert int(model.seen) == 8
    assert_same_gradients(model, other)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_draws_its_masks_once(client: aclgrad.Client, reentrant: bool) -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(8, 6), nn.Dropout(0.5), nn.ReLU(), nn.Dropout(0.5))
            self.head = nn.Linear(6, 3)

        def forward(self, x: Tensor) -> Tensor:
            hidden = checkpoint(self.inner, x.requires_grad_(reentrant), use_reentrant=reentrant)
            logits: Tensor = self.head(hidden)
            return logits

    step, x = step_of(Checkpointed(), client), X.clone()
    if reentrant:
        with pytest.raises(aclgrad.InvalidFieldError, match="reentrant checkpoint; give checkpoint"):
            step(x, Y)
        return
    for _ in range(2):
        step(x, Y)
    assert "drawn here in each step: 2 random tensors" in step.explain()


def test_a_checkpoint_has_the_weights_of_its_step(client: aclgrad.Client) -> None:
    """It calls the model again, within the backward pass."""

    def loss(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return functional.cross_entropy(checkpoint(model, x, use_reentrant=False), y)

    model = network(nn.Tanh())
    other, step = copy.deepcopy(model), step_of(model, client, loss, verify_every=0)
    for each in (model, other):
        optimizer = torch.optim.SGD(each.parameters(), 0.5)
        for _ in range(4):
            optimizer.zero_grad()
            if each is model:
                step(X, Y)
            else:
                loss_of(other, X, Y).backward()
            optimizer.step()
    assert_same_gradients(model, other)


def test_a_module_may_have_several_names(client: aclgrad.Client) -> None:
    shared = nn.Linear(8, 8)
    model = nn.Sequential(shared, nn.Tanh(), shared, nn.BatchNorm1d(8))
    model.append(model[3])
    other, step = copy.deepcopy(model), step_of(model, client)
    for _ in range(2):
        step(X, Y)
        loss_of(other, X, Y).backward()
    assert_same_gradients(model, other)
    torch.testing.assert_close(model[3].running_var, other[3].running_var)


def test_channels_last_is_the_batchs_own_matter(client: aclgrad.Client) -> None:
    torch.manual_seed(11)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 3))
    model = model.to(memory_format=torch.channels_last)
    other, images = copy.deepcopy(model), torch.randn(16, 3, 8, 8).to(memory_format=torch.channels_last)
    step_of(model, client)(images, Y.repeat(4))
    loss_of(other, images, Y.repeat(4)).backward()
    assert_same_gradients(model, other)


def test_the_generator_goes_on_as_if_pytorch_had_drawn(client: aclgrad.Client) -> None:
    model = network(nn.Dropout(0.3), nn.AlphaDropout(0.2), nn.Dropout1d(0.2))
    other, step = copy.deepcopy(model), step_of(model, client, verify_every=0)
    drawn = []
    for compute in (lambda: step(X, Y), lambda: loss_of(other, X, Y).backward()):
        torch.manual_seed(9)
        for _ in range(3):
            compute()
        drawn.append(torch.rand(4))
    assert torch.equal(*drawn)
    assert_same_gradients(model, other)


def test_autocast_is_that_of_the_step(client: aclgrad.Client) -> None:
    model = network(nn.LayerNorm(6), nn.GELU())
    other, step = copy.deepcopy(model), step_of(model, client)
    with torch.autocast("cpu", torch.bfloat16):
        step(X, Y)
        loss_of(other, X, Y).backward()
    assert_same_gradients(model, other, 5e-2)
    step(X, Y)
    assert "bfloat16" not in step.explain()


def test_without_gradients_only_the_loss_is_computed(client: aclgrad.Client) -> None:
    model = network(nn.ReLU())
    step = step_of(model, client)
    with torch.no_grad():
        torch.testing.assert_close(step(X, Y), loss_of(model, X, Y), rtol=1e-5, atol=1e-6)
    assert all(each.grad is None for each in model.parameters())


def test_arguments_may_have_names_and_structures(client: aclgrad.Client) -> None:
    def loss(model: nn.Module, batch: dict[str, Any], *, scale: float) -> Tensor:
        return functional.cross_entropy(model(batch["x"][0]), batch["y"]) * scale

    model = network()
    other, step = copy.deepcopy(model), step_of(model, client, loss)
    for scale in (2.0, 3.0):
        step({"x": [X], "y": Y}, scale=scale)
        loss(other, {"x": [X], "y": Y}, scale=scale).backward()
    assert_same_gradients(model, other)
    with pytest.raises(aclgrad.InvalidFieldError, match="batch has a object; give tensors"):
        step({"x": object(), "y": Y}, scale=1.0)


def test_a_tensor_that_is_given_twice_travels_once(client: aclgrad.Client) -> None:
    def loss(model: nn.Module, x: Tensor, other: Tensor) -> Tensor:
        return functional.mse_loss(model(x), other[:, :3]) + other.square().mean()

    model, x = network(), torch.randn(256, 8)
    other, step = copy.deepcopy(model), step_of(model, client, loss)
    step(x, x)
    once = step.sent_bytes
    step(x, x * 2)
    assert step.sent_bytes - once == x.nbytes
    for given in (x, x * 2):
        loss(other, x, given).backward()
    assert_same_gradients(model, other)


def test_new_values_and_new_parameters_are_sent(client: aclgrad.Client) -> None:
    model = network()
    step = step_of(model, client)
    step(X, Y)
    with torch.no_grad():
        model[0].weight.mul_(3)
    torch.testing.assert_close(step(X, Y), loss_of(model, X, Y).detach(), rtol=1e-5, atol=1e-6)
    model[0].weight = nn.Parameter(torch.ones(6, 8))
    model[1] = nn.Sequential(nn.Sigmoid(), nn.Linear(6, 3))
    torch.testing.assert_close(step(X, Y), loss_of(model, X, Y).detach(), rtol=1e-5, atol=1e-6)
    assert model[0].weight.grad is not None


def test_optimisers_schedulers_and_clipping_train(client: aclgrad.Client) -> None:
    model = network(nn.ReLU())
    other, step = copy.deepcopy(model), step_of(model, client)
    for each in (model, other):
        optimizer = torch.optim.AdamW(each.parameters(), 1e-2)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        for _ in range(5):
            optimizer.zero_grad()
            if each is model:
                step(X, Y)
            else:
                loss_of(other, X, Y).backward()
            nn.utils.clip_grad_norm_(each.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
    for one, expected in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-4, atol=1e-5)
