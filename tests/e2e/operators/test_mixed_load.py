"""Ten thousand calls of all operators from many threads at once: each has the bits that it has alone."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from tests.e2e.fault_plans import once, write_config
from tests.e2e.operators.test_operators import assert_close
from tools.serving import Server

pytestmark = once

THREADS = 32
CALLS = 10_000
CASES = [typed for typed in typed_cases(Product.ATLAS_A2) if min(map(min, typed.case.shapes.values())) > 0]

Request = tuple[str, dict[str, Any], dict[str, Any]]


def requests_of(typed: TypedCase) -> Iterator[Request]:
    """Yields the call, and where the operator reads less than it takes, the call that sends no more than that."""
    arrays, attributes = typed.arrays(), dict(typed.case.attributes)
    yield typed.spec.name, arrays, attributes
    unread = {each.name for each in typed.spec.inputs if Product.ATLAS_A2 in (each.unread_on or ())}
    if unread and not any(each.read_for(typed.arguments) for each in typed.spec.inputs):
        inputs = {name: array.shape if name in unread else array for name, array in arrays.items()}
        yield typed.spec.name, inputs, attributes


@pytest.mark.parametrize("host_pointers", [True, False], ids=["host_pointers", "copies"])
def test_each_of_many_calls_has_the_bits_that_it_has_alone(tmp_path: Path, host_pointers: bool) -> None:
    origins, requests = zip(*((typed, request) for typed in CASES for request in requests_of(typed)), strict=True)
    assert {name for name, _, _ in requests} == set(OPERATORS)
    config = write_config(tmp_path, host_pointers=host_pointers, devices=2, strict=False)
    with (
        Server("--acl-config", config, "--streams", "4") as server,
        aclgrad.Client(server.address, shape_only=False) as client,
    ):
        alone = [client.execute(*request) for request in requests]
        for typed, gradient in zip(origins, alone, strict=True):
            assert_close(gradient, typed)
        start = threading.Barrier(THREADS)

        def call_in_an_order_of_its_own(thread: int) -> list[int]:
            """Returns the indices of the requests whose replies have other bits."""
            chosen = np.random.default_rng(thread).integers(0, len(requests), CALLS // THREADS + 1)
            with aclgrad.Client(server.address, shape_only=False) as own:
                start.wait(60)
                replies = ((index, own.execute(*requests[index], timeout_s=60)) for index in chosen)
                return [index for index, reply in replies if reply.tobytes() != alone[index].tobytes()]

        with ThreadPoolExecutor(THREADS) as threads:
            differing = [index for each in threads.map(call_in_an_order_of_its_own, range(THREADS)) for index in each]
        assert differing == []
        status = client.server_status()
        assert [device.pool.allocated_bytes for device in status.devices] == [0, 0]
        assert all(device.stream_count > 1 for device in status.devices), "one device or stream did all the work"
        assert all(device.leased_stream_count == 0 for device in status.devices)
