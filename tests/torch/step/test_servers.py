"""Steps and servers that change: one that is lost in the middle, another product, one that is too small, none."""

import copy
import signal
import threading
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import aclgrad
import aclgrad.torch
from aclgrad.bridges import served_operators
from aclgrad.testing import serve
from tools.serving import Server

from .test_gradients import X, Y, assert_same_gradients, loss_of, network, step_of


def wide() -> nn.Module:
    """A network that a server computes for a while."""
    torch.manual_seed(8)
    return nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(12)))


def square(model: nn.Module, x: Tensor) -> Tensor:
    return functional.mse_loss(model(x), x)


def test_a_step_whose_server_is_lost_is_computed_by_another_one() -> None:
    model, x = wide(), torch.randn(512, 1024)
    other, reports = copy.deepcopy(model), list[aclgrad.CallReport]()
    with Server() as one, Server() as two:
        target = f"ipv4:{one.address},{two.address}"
        with aclgrad.Client(target, on_call=reports.append, timeout_s=120) as client:
            step = step_of(model, client, square, verify_every=0)
            step(x)
            model.zero_grad()
            first = next(each for each in (one, two) if each.address == reports[-1].server)
            threading.Timer(0.1, partial(first.send, signal.SIGKILL)).start()
            steps = 0
            while reports[-1].server == first.address and steps < 100:
                model.zero_grad()
                step(x)
                steps += 1
    square(other, x).backward()
    assert_same_gradients(model, other, 1e-4)


def test_a_server_that_is_down_is_an_error_that_changes_nothing() -> None:
    model = network(nn.Dropout())
    with Server() as server, aclgrad.Client(server.address, timeout_s=1.0) as client:
        step = step_of(model, client)
        step(X, Y)
        gradient, state = model[0].weight.grad.clone(), torch.get_rng_state()
        server.send(signal.SIGKILL)
        with pytest.raises((aclgrad.ConnectionLostError, aclgrad.DeadlinePassedError)):
            step(X, Y)
    assert torch.equal(model[0].weight.grad, gradient)
    assert torch.equal(torch.get_rng_state(), state)


def test_another_product_has_a_trace_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its masks of max pooling have another form, and the client learns of it by the server's refusal alone."""
    monkeypatch.setattr(served_operators, "FRESH_S", 1e9)
    torch.manual_seed(9)
    model = nn.Sequential(nn.Linear(4, 4), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 3))
    images = torch.randn(4, 2, 4, 4)
    other = copy.deepcopy(model)
    with Server() as first:
        address = first.address
        client = aclgrad.Client(address, timeout_s=30)
        step = step_of(model, client)
        step(images, Y)
    config = tmp_path / "acl.json"
    config.write_text('{"host": {"product": "910A"}}')
    with Server("--acl-config", str(config), listen=(address,)), client:
        step(images, Y)
    for _ in range(2):
        loss_of(other, images, Y).backward()
    assert_same_gradients(model, other, 1e-4)


def test_a_product_without_some_operators_computes_the_others() -> None:
    """What PyTorch computes in their place may read what stays on the device: it computes that itself."""
    torch.manual_seed(10)
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(3, 3))
    images, other = torch.randn(4, 2, 4, 4), copy.deepcopy(model)
    with serve(product="310P") as server, aclgrad.Client(server.target) as client:
        step = step_of(model, client, strict=False)
        step(images, Y)
    loss_of(other, images, Y).backward()
    assert_same_gradients(model, other, 1e-4)
    assert "operator batch_norm_backward is not served" in step.explain()


def test_a_server_that_is_too_small_says_how_much_it_takes_and_where_to_cut() -> None:
    with Server("--max-call-bytes", "8MiB") as server, aclgrad.Client(server.address) as client:
        step = step_of(wide(), client, square)
        with pytest.raises(aclgrad.LimitExceededError, match=r"Sequential\.\d") as caught:
            step(torch.randn(512, 1024))
    assert int(caught.value.metadata["peak_bytes"]) > 8 * 2**20
