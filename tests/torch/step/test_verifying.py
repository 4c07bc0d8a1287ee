"""Steps that also run here now and then: what tracing froze, and what a server computes wrong, is found."""

import pytest
import torch

import aclgrad
import aclgrad.torch
from aclgrad.testing import serve
from tests.wrong_servers import changed, of_gradients

from . import models_with_faults as faulty
from .test_gradients import X, Y, network, step_of


def test_python_state_that_has_changed_is_found(client: aclgrad.Client) -> None:
    """A trace leaves the model as it is, and each check calls it once."""
    model = faulty.Counting()
    step = step_of(model, client, verify_every=2)
    for _ in range(4):
        step(X, Y)
    assert model.calls == 2
    grad = model.linear.weight.grad.clone()
    with pytest.raises(aclgrad.StepDiffersError, match="the loss differs, and Counting is the first module"):
        step(X, Y)
    assert torch.equal(model.linear.weight.grad, grad), "a step that fails changes nothing"
    step.reset()
    step(X, Y)


def test_a_loss_that_counts_is_found(client: aclgrad.Client) -> None:
    """Its changes are no rounding, which the trace alone tells."""
    calls = iter(range(100))
    step = step_of(network(), client, lambda model, x, y: model(x).square().mean() * 2.0 ** next(calls))
    with pytest.raises(aclgrad.StepDiffersError, match="no module differs, but the loss function"):
        step(X, Y)


def test_the_first_module_that_differs_is_named(client: aclgrad.Client) -> None:
    model = network(torch.nn.ReLU(), torch.nn.Dropout(0.5))
    step = step_of(model, client)
    step(X, Y)
    model[1].forward = torch.abs
    with pytest.raises(aclgrad.StepDiffersError, match=r"Sequential\.1 is the first module that differs"):
        step(X, Y)


def test_a_mask_of_the_lowest_number_hides_no_wrong_result() -> None:
    """In the last bit of such numbers the weights of a row go to one key."""
    mask = torch.full((4, 3), torch.finfo(torch.float32).min)
    wrong = of_gradients("mm", lambda each: each * 1.5)
    with serve() as server, changed(server.target, wrong) as address, aclgrad.Client(address) as client:
        step = step_of(network(), client, lambda model, x, y, mask: (model(x) + mask).softmax(-1)[:, y].square().sum())
        with pytest.raises(aclgrad.ServerFaultError, match="compare_step"):
            step(X, Y, mask)


def test_a_check_may_be_left_out(client: aclgrad.Client) -> None:
    step = step_of(faulty.Counting(), client, verify_every=0)
    for _ in range(5):
        step(X, Y)


def test_a_server_that_is_wrong_is_told_from_a_trace_that_is_old() -> None:
    wrong = of_gradients("mm", lambda each: each * 1.5)
    with serve() as server, changed(server.target, wrong) as address, aclgrad.Client(address) as client:
        step = step_of(network(), client)
        with pytest.raises(aclgrad.ServerFaultError, match="compare_step"):
            step(X, Y)
