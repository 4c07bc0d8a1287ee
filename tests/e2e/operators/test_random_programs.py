"""Random programs are answered right, whichever way they are sent, and leave nothing behind."""

import secrets
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory

import grpc
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aclgrad.judge.programs.drawing import draw_program
from aclgrad.operators.samples import Integer
from aclgrad.products import Product
from tools.random_programs.checking import check_program
from tools.random_programs.sending import SharedBuffer
from tools.raw_calls import open_channel, wait_until_idle
from tools.serving import Server, write_host_config

KINDS = {
    "910B": (Product.ATLAS_A2, {"host_pointers": False}, ""),
    "910B with host pointers": (Product.ATLAS_A2, {"host_pointers": True}, ""),
    "910B with blocks of their own": (Product.ATLAS_A2, {"host_pointers": False}, "pool_pass_through"),
    "910A": (Product.ATLAS_TRAINING, {"host_pointers": False, "product": "910A"}, ""),
}
"""The product, the device, and how the server is changed; every device is strict, and poisons fresh memory."""


@pytest.fixture(scope="module", params=KINDS)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Product, grpc.Channel]]:
    product, device, changes = KINDS[request.param]
    folder = tmp_path_factory.mktemp("programs")
    report = folder / "strict.txt"
    config = write_host_config(folder, strict=True, strict_report=report, **device)
    listen = (f"unix:{folder}/socket", "127.0.0.1:0")
    with Server("--acl-config", config, "--shared-memory", listen=listen, changes=changes) as server:
        with open_channel(server) as channel:
            yield product, channel
        wait_until_idle(server, server.addresses[1])
        assert "Traceback" not in server.log
    assert not report.exists() or report.read_text() == ""


@pytest.fixture
def memory() -> Iterator[SharedBuffer]:
    segment = SharedMemory(f"aclgrad-{secrets.token_hex(6)}", create=True, size=2**24)
    assert segment.buf is not None
    yield SharedBuffer(f"/{segment.name}", segment.buf)
    segment.close()
    segment.unlink()


def check(served: tuple[Product, grpc.Channel], memory: SharedBuffer, integer: Integer, most_steps: int) -> None:
    product, channel = served
    program = draw_program(integer, product, most_steps)
    assert list(check_program(channel, program, product, integer, memory)) == []


@settings(max_examples=25, suppress_health_check=[*HealthCheck])
@given(data=st.data())
def test_small_programs(served: tuple[Product, grpc.Channel], memory: SharedBuffer, data: st.DataObject) -> None:
    check(served, memory, lambda first, last: data.draw(st.integers(first, last)), 12)


@pytest.mark.parametrize("seed", range(25))
def test_long_programs(served: tuple[Product, grpc.Channel], memory: SharedBuffer, seed: int) -> None:
    generator = np.random.default_rng(seed)
    check(served, memory, lambda first, last: int(generator.integers(first, last, endpoint=True)), 60)
