"""Tensors that `cat` joins: what makes them writes where they are joined, if it may, and then nothing is left to do."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from tests.e2e.fault_plans import FaultyServer

X = np.random.default_rng(5).standard_normal((4, 16), np.float32)
"""Whose rows of 64 bytes may lie one behind the other."""
ODD = X[:3, :5].copy()
JOINING = {"kind": "launch_error", "at": 1, "count": 2**62, "operator": "aclnnCat", "code": 561103}
"""Every join that runs fails."""
Build = Callable[[Any], tuple[Any, Any]]


@pytest.fixture(scope="module", params=[True, False], ids=["host_pointers", "copies"])
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[aclgrad.Client]:
    folder: Path = tmp_path_factory.mktemp("joined")
    faults = FaultyServer(folder, JOINING, host_pointers=request.param, stream_failure_mode=False)
    with faults as server, aclgrad.Client(server.address) as client:
        yield client
        assert server.misuse == ""


def relu(array: np.ndarray) -> np.ndarray:
    return np.maximum(array, 0)


def two(p: Any) -> tuple[Any, Any]:
    return p.cat([p.relu(X), p.neg(X)]), np.concatenate([relu(X), -X])


def of_a_leading_axis_of_one(p: Any) -> tuple[Any, Any]:
    parts = p.relu(X[None]), p.neg(X[None])
    return p.cat(parts, dim=-2), np.concatenate([relu(X), -X])[None]


def with_an_odd_end(p: Any) -> tuple[Any, Any]:
    return p.cat([p.relu(X), p.neg(X[:1])]), np.concatenate([relu(X), -X[:1]])


def in_a_tensor_that_is_joined_again(p: Any) -> tuple[Any, Any]:
    parts = [p.relu(X), p.neg(X)]
    return p.add(p.cat(parts), p.adds(p.cat([p.abs(X), p.relu(X)]), 1)), np.concatenate(
        [relu(X) + np.abs(X) + 1, -X + relu(X) + 1]
    )


FREE: list[Build] = [
    two, of_a_leading_axis_of_one, with_an_odd_end, in_a_tensor_that_is_joined_again,
]  # fmt: skip


@pytest.mark.parametrize("build", FREE)
def test_no_kernel_joins_what_lies_in_order(client: aclgrad.Client, build: Build) -> None:
    program = client.program()
    handle, expected = build(program)
    (found,) = program.run(handle)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_the_parts_are_returned_as_well(client: aclgrad.Client) -> None:
    program = client.program()
    parts = [program.relu(X), program.neg(X)]
    joined = program.cat(parts)
    after = program.abs(joined)
    *found, whole, last = program.run(*parts, joined, after)
    np.testing.assert_array_equal(np.concatenate(found), whole)
    np.testing.assert_array_equal(whole, np.concatenate([relu(X), -X]))
    np.testing.assert_array_equal(last, np.abs(whole))


def out_of_order(p: Any) -> Any:
    second = p.neg(X)
    return p.cat([p.relu(X), second])


def twice(p: Any) -> Any:
    return p.cat([p.relu(X)] * 2)


def across(p: Any) -> Any:
    return p.cat([p.relu(X), p.neg(X)], dim=1)


def of_odd_sizes(p: Any) -> Any:
    return p.cat([p.relu(ODD), p.neg(ODD)])


def of_an_array(p: Any) -> Any:
    return p.cat([p.relu(X), X])


def of_a_view(p: Any) -> Any:
    return p.cat([p.relu(X).T, p.neg(X).T])


def of_two_types(p: Any) -> Any:
    return p.cat([p.relu(X), p.relu(X.astype(np.float16))])


def one_of_the_other(p: Any) -> Any:
    first = p.relu(X)
    return p.cat([first, p.adds(first, 1)])


def of_a_part_that_another_step_uses(p: Any) -> Any:
    parts = [p.relu(X), p.neg(X)]
    return p.add(p.cat(parts)[:4], p.muls(parts[0], 2))


def in_two_tensors(p: Any) -> Any:
    parts = [p.relu(X), p.neg(X)]
    return p.add(p.cat(parts), p.cat(parts))


@pytest.mark.parametrize(
    "build",
    [
        out_of_order,
        twice,
        across,
        of_odd_sizes,
        of_an_array,
        of_a_view,
        of_two_types,
        one_of_the_other,
        of_a_part_that_another_step_uses,
        in_two_tensors,
    ],
)
def test_a_kernel_joins_everything_else(client: aclgrad.Client, build: Callable[[Any], Any]) -> None:
    program = client.program()
    with pytest.raises(aclgrad.ServerFaultError):
        program.run(build(program))


def test_a_part_that_fails_fails_the_whole(client: aclgrad.Client) -> None:
    program = client.program()
    taken = program.index_select(program.relu(X), index=np.array([0, 9], np.int64), dim=0)
    joined = program.cat([program.relu(X), taken])
    (error,) = program.run(joined, return_errors=True)
    assert isinstance(error, aclgrad.InputFailedError)
