"""Executors that outlive their launches, as aclSetAclOpExecutorRepeatable makes them; shown by one operator."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from tools.abi.acl import Library

NAME = "aclnnAdaptiveAvgPool2dBackward"
INNER, INNER_NULLPTR, PARAM_NULLPTR = 561000, 561103, 161001
SHAPE, GRAD_SHAPE = (2, 3, 4, 4), (2, 3, 2, 2)
SETTERS = [prefix + kind + "TensorAddr" for prefix in ("aclSet", "AclSet") for kind in ("Input", "Output", "")]

Busy = Callable[[object], None]


class Average:
    """A repeatable executor of NAME; its tensors have no address until one is set."""

    def __init__(self, acl: Library, stack: ExitStack, strides: tuple[int, ...] | None = None) -> None:
        self.acl = acl
        self.grad = stack.enter_context(acl.describe(GRAD_SHAPE))
        self.out = stack.enter_context(acl.describe(SHAPE, strides=strides))
        self.size, self.executor = acl.plan(NAME, self.grad, self.out, self.out)
        acl.call("aclSetAclOpExecutorRepeatable", self.executor)

    def launch(self, grad: int | None, out: int | None, workspace: int | None = None, stream: object = None) -> int:
        self.acl.call("aclSetInputTensorAddr", self.executor, 0, self.grad, grad)
        self.acl.call("aclSetOutputTensorAddr", self.executor, 0, self.out, out)
        return getattr(self.acl, NAME)(workspace, self.size, self.executor, stream)


@pytest.fixture
def average(acl: Library) -> Iterator[Average]:
    with ExitStack() as stack:
        average = Average(acl, stack)
        yield average
        acl.call("aclDestroyAclOpExecutor", average.executor)


def grad_of(value: float) -> np.ndarray:
    return np.full(GRAD_SHAPE, value * 4, np.float32)


def test_addresses_change_while_launches_are_queued(acl: Library, average: Average, busy: Busy) -> None:
    with ExitStack() as stack:
        streams = [stack.enter_context(acl.stream()) for _ in range(2)]
        grads = [stack.enter_context(acl.tensor(grad_of(value))) for value in range(6)]
        outs = [stack.enter_context(acl.tensor(np.full(SHAPE, -1, np.float32))) for _ in range(6)]
        busy(streams[0])
        for number, (grad, out) in enumerate(zip(grads, outs, strict=True)):
            assert average.launch(grad.address, out.address, stream=streams[number % 2]) == 0
        assert acl.aclrtSynchronizeStreamWithTimeout(streams[0], 0) != 0
        for stream in streams:
            acl.call("aclrtSynchronizeStream", stream)
        for value, out in enumerate(outs):
            assert (out.read_storage() == value).all()


def test_an_executor_may_be_destroyed_while_launches_are_queued(acl: Library, busy: Busy) -> None:
    with (
        acl.stream() as stream,
        acl.tensor(grad_of(5)) as grad,
        acl.tensor(np.zeros(SHAPE, np.float32)) as out,
    ):
        busy(stream)
        with ExitStack() as stack:
            average = Average(acl, stack)
            assert average.launch(grad.address, out.address, stream=stream) == 0
            assert average.launch(grad.address, out.address, stream=stream) == 0
            acl.call("aclDestroyAclOpExecutor", average.executor)
        assert acl.aclrtSynchronizeStreamWithTimeout(stream, 0) != 0
        acl.call("aclrtSynchronizeStream", stream)
        assert (out.read_storage() == 5).all()


@pytest.mark.needs("nulls")
def test_a_refused_launch_does_not_destroy_it(acl: Library, average: Average) -> None:
    assert average.launch(None, None) == PARAM_NULLPTR
    assert getattr(acl, NAME)(None, 64, average.executor, None) == PARAM_NULLPTR
    assert getattr(acl, NAME)(None, 0, average.executor, 0x1234567) != 0
    with acl.tensor(grad_of(2)) as grad, acl.tensor(np.zeros(SHAPE, np.float32)) as out:
        assert average.launch(grad.address, out.address) == 0
        acl.call("aclrtSynchronizeStream", None)
        assert (out.read_storage() == 2).all()


@pytest.mark.parametrize("index", [0, 7])
@pytest.mark.parametrize("setter", SETTERS)
def test_every_setter_finds_the_tensor_whatever_the_index(
    acl: Library, average: Average, setter: str, index: int
) -> None:
    with acl.tensor(grad_of(3)) as grad, acl.tensor(np.zeros(SHAPE, np.float32)) as out:
        acl.call(setter, average.executor, index, average.grad, grad.address)
        acl.call(setter, average.executor, index, average.out, out.address)
        address = ctypes.c_void_p()
        acl.call("aclGetRawTensorAddr", average.out, ctypes.byref(address))
        assert address.value == out.address
        acl.call(NAME, None, 0, average.executor, None)
        acl.call("aclrtSynchronizeStream", None)
        assert (out.read_storage() == 3).all()


def test_views_are_staged_from_and_to_the_new_addresses(acl: Library) -> None:
    storage = np.zeros(SHAPE, np.float32)
    transposed = tuple(stride // 4 for stride in storage.transpose(0, 1, 3, 2).strides)
    with ExitStack() as stack:
        average = Average(acl, stack, transposed)
        workspace = stack.enter_context(acl.buffer(average.size))
        for value in range(3):
            grad = stack.enter_context(acl.tensor(np.arange(24, dtype=np.float32).reshape(GRAD_SHAPE) * value))
            out = stack.enter_context(acl.tensor(storage))
            assert average.launch(grad.address, out.address, workspace) == 0
            acl.call("aclrtSynchronizeStream", None)
            expected = grad.read_storage().repeat(2, 2).repeat(2, 3).transpose(0, 1, 3, 2) / 4
            np.testing.assert_array_equal(out.read_storage(), expected)
        acl.call("aclDestroyAclOpExecutor", average.executor)


def test_an_address_set_between_the_phases_counts(acl: Library) -> None:
    with (
        acl.tensor(grad_of(1)) as first,
        acl.tensor(grad_of(2)) as second,
        acl.tensor(np.zeros(SHAPE, np.float32)) as out,
    ):
        size, executor = acl.plan(NAME, first.handle, out.handle, out.handle)
        acl.call("aclSetRawTensorAddr", first.handle, second.address)
        acl.call(NAME, None, size, executor, None)
        acl.call("aclrtSynchronizeStream", None)
        assert (out.read_storage() == 2).all()


def test_null_arguments(acl: Library, average: Average) -> None:
    assert acl.aclSetAclOpExecutorRepeatable(None) == INNER_NULLPTR
    for setter in SETTERS:
        assert getattr(acl, setter)(None, 0, average.grad, None) == INNER_NULLPTR
        assert acl.says("executor")
        assert getattr(acl, setter)(average.executor, 0, None, None) == INNER_NULLPTR
        assert acl.says("tensor")


def test_an_operator_may_not_be_repeatable(run_program: Callable[..., list[str]]) -> None:
    lines = run_program(
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtSetDevice', 0)\n"
        "with acl.describe((1, 1, 2, 2)) as grad, acl.describe((1, 1, 4, 4)) as out:\n"
        f"    _, executor = acl.plan({NAME!r}, grad, out, out)\n"
        "    print(acl.aclSetAclOpExecutorRepeatable(executor))\n"
        "    print(acl.message())\n"
        "    acl.call('aclDestroyAclOpExecutor', executor)\n",
        {"not_repeatable": ["aclnnRoiAlignV2Backward", NAME]},
    )
    assert lines[0] == str(INNER)
    assert NAME in lines[1]
