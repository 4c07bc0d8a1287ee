"""What each of several workers has of the whole, and how it is told."""

import os
import pickle
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aclgrad_server.access.identities import LEAST_CALLS, read_identities
from aclgrad_server.place import Orders, Place, share_of
from aclgrad_server.settings import MAX_WORKERS, read_settings

WHOLE = st.integers(0, 2**48)
PARTS = st.integers(1, MAX_WORKERS)


@given(WHOLE, PARTS, st.integers(1, 100))
def test_shares_are_the_whole_rounded_up_and_no_less_than_the_least_of_it(whole: int, parts: int, least: int) -> None:
    share = share_of(whole, parts, least)
    assert share * parts >= whole
    assert share <= whole
    assert share >= min(least, whole)
    # Rounded up by less than one, unless that is below the least.
    assert share == min(least, whole) or (share - 1) * parts < whole


TOKEN = sha256(b"token").hexdigest()


@pytest.mark.parametrize(
    ("workers", "max_calls", "waiting", "max_bytes", "expected"),
    [
        (1, 1000, 10, 2**20, (1000, 10, 2**20)),
        (4, 1000, 10, 2**20, (250, LEAST_CALLS, 2**18)),
        (3, 100, 100, 10, (34, 34, 4)),
        (63, 1000, 64, 62, (16, LEAST_CALLS, 1)),
        (8, 3, 2, 1, (3, 2, 1)),
        (8, 1, 0, 2**48, (1, 0, 2**45)),
    ],
)
def test_identities_have_a_part_of_their_bounds_at_each_worker(
    tmp_path: Path, workers: int, max_calls: int, waiting: int, max_bytes: int, expected: tuple[int, int, int]
) -> None:
    """And of none below four calls: a client with a single connection meets one worker. None that wait stay none."""
    file = tmp_path / "identities.toml"
    bounds = f"max_calls = {max_calls}\nmax_waiting_calls = {waiting}\nmax_bytes = {max_bytes}\nshare = 3"
    file.write_text(f'[identities.one]\ntoken_sha256 = ["{TOKEN}"]\n{bounds}\n')
    found = read_identities(file, workers).of_token(b"token")
    assert found is not None
    told = found.bounds
    assert (found.max_calls, told.waiting, told.size_bytes) == expected
    assert told.per_round == 3


def test_orders_survive_the_pipe_whatever_the_environment_says(tmp_path: Path) -> None:
    """They are read once for the host: a worker looks neither for the file nor for variables."""
    file = tmp_path / "aclgrad.toml"
    file.write_text("streams = 3\n")
    flags = {"config": file, "listen": ("127.0.0.1:0", "unix:/run/x"), "device": (2,), "acl_config": tmp_path / "acl"}
    settings = read_settings(flags)
    file.unlink()
    orders = Orders(settings, Place(1, 3, 2, (("127.0.0.1:1",), ("127.0.0.1:2", "unix:/run/x.1")), 5))
    assert pickle.loads(orders.packed()) == orders
    program = """
import hashlib, pickle, sys
from aclgrad_server.place import read_orders, wait_for_the_supervisor_to_end
orders = read_orders()
print(orders.settings.streams, orders.place, flush=True)
wait_for_the_supervisor_to_end()
print("ended", flush=True)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "ACLGRAD_STREAMS": "7", "ACLGRAD_CONFIG": "/nowhere"},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(orders.packed())
        process.stdin.flush()
        assert process.stdout.readline().decode() == f"3 {orders.place}\n"
        # It waits for the end of its supervisor, and not for more orders.
        process.stdin.write(b"more")
        process.stdin.close()
        assert process.stdout.readline() == b"ended\n"
        assert process.wait(60) == 0
