"""Outputs in a form of the device's own: gradients take them in the same program, and nothing else does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
import aclgrad.testing
from aclgrad import reference
from aclgrad.errors import InvalidFieldError
from aclgrad.masks import Pooling, argmax_of_input
from aclgrad.products import Product
from tests.e2e.fault_plans import write_config
from tools.serving import Server

pytestmark = pytest.mark.once

X = np.random.default_rng(59).standard_normal((4, 3, 9, 7), np.float32)
ONES = np.ones(3, np.float32)
STATISTICS = {"running_mean": 0 * ONES, "running_var": ONES, "weight": ONES * 3, "bias": ONES, "training": True}
WINDOWS: dict[str, Any] = {"kernel_size": (3, 2), "stride": (2, 2), "padding": (1, 1)}
PLACES = ["testing", "910B", "910B copies", "910A", "950"]


@contextmanager
def server_of(place: str, folder: Path) -> Iterator[aclgrad.Client]:
    product, _, copies = place.partition(" ")
    if place == "testing":
        with aclgrad.testing.serve() as testing, aclgrad.Client(testing.target) as client:
            yield client
        return
    config = write_config(folder, product=product, host_pointers=not copies)
    with Server("--acl-config", config) as server, aclgrad.Client(server.address) as client:
        yield client


@pytest.fixture(scope="module", params=PLACES)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[aclgrad.Client]:
    with server_of(request.param, tmp_path_factory.mktemp("kept")) as client:
        yield client


def product_of(client: aclgrad.Client) -> Product:
    return Product(client.server_status().product)


def test_the_deviation_of_a_batch_reaches_its_gradient(client: aclgrad.Client) -> None:
    grad = X[::-1].copy()
    program = client.program()
    made = program.batch_norm(X, **STATISTICS, eps=1e-3)
    saved = {"save_mean": made.save_mean, "save_invstd": made.save_invstd}
    gradients = program.batch_norm_backward(grad, X, weight=3 * ONES, **saved, training=True, eps=1e-3)
    output, mean, found = program.run(made.output, made.new_running_mean, gradients)
    wide = X.astype(np.float64)
    means, variances = wide.mean((0, 2, 3)), wide.var((0, 2, 3))
    expected = (wide - means[:, None, None]) / np.sqrt(variances + 1e-3)[:, None, None] * 3 + 1
    np.testing.assert_allclose(output, expected, 1e-4, 1e-4)
    np.testing.assert_allclose(mean, means / 10, 1e-4, 1e-6)
    arrays = {"grad_output": grad, "input": X, "weight": 3 * ONES, "save_mean": means}
    arrays |= {"save_invstd": 1 / np.sqrt(variances + 1e-3)}
    truths = reference.define("batch_norm_backward", arrays, {"training": True, "eps": 1e-3})
    for gradient, truth in zip(found, truths, strict=True):
        np.testing.assert_allclose(gradient, truth, 1e-3, 1e-3)


@pytest.mark.parametrize("windows", [WINDOWS, {"kernel_size": (1, 1)}], ids=["overlapping", "single_cells"])
@pytest.mark.parametrize("kind", ["mask", "indices"])
def test_places_of_maxima_reach_their_gradient(client: aclgrad.Client, kind: str, windows: dict[str, Any]) -> None:
    name = f"max_pool2d_with_{kind}"
    served = {each.name for each in client.list_operators()}
    if name not in served or f"{name}_backward" not in served:
        pytest.skip(f"the product has no {name}")
    program = client.program()
    pooled, places = program.execute(name, {"self": X}, windows)
    weights = np.random.default_rng(60).standard_normal(pooled.shape, np.float32)
    gradient = program.execute(f"{name}_backward", {"grad_output": weights, "self": X, "indices": places}, windows)
    output, found = program.run(pooled, gradient)
    maxima, argmax = argmax_of_input(X, Pooling.of(X.shape[-2:], **windows))
    np.testing.assert_array_equal(output, maxima)
    truth = np.zeros((12, 63))
    np.add.at(truth, (np.arange(12)[:, None], argmax.reshape(12, -1)), weights.reshape(12, -1))
    np.testing.assert_allclose(found, truth.reshape(X.shape), 1e-6, 1e-6)


def test_nothing_else_takes_them(client: aclgrad.Client) -> None:
    program = client.program()
    made = program.batch_norm(X, **STATISTICS)
    with pytest.raises(InvalidFieldError, match="form of the device's own"):
        program.run(program.adds(made.save_invstd, 0.0))


def test_another_eps_does_not_take_the_deviation(client: aclgrad.Client) -> None:
    program = client.program()
    made = program.batch_norm(X, **STATISTICS)
    saved = {"save_mean": made.save_mean, "save_invstd": made.save_invstd}
    gradients = program.batch_norm_backward(X, X, **saved, training=True, eps=1e-3)
    with pytest.raises(InvalidFieldError, match="guarantees"):
        program.run(gradients)


def test_nobody_gets_them(client: aclgrad.Client) -> None:
    arrays = {name: value for name, value in STATISTICS.items() if isinstance(value, np.ndarray)}
    made = client.execute("batch_norm", {"input": X, **arrays}, {"training": True})
    assert made[-1] is None
    with pytest.raises(InvalidFieldError, match="save_invstd"):
        client.execute("batch_norm", {"input": X, **arrays}, {"training": True}, outputs=("save_invstd",))
    program = client.program()
    with pytest.raises(InvalidFieldError, match="form of the device's own"):
        program.run(program.batch_norm(X, **STATISTICS).save_invstd)
