"""What every operator's executor does, for one launch or for many, shown by one operator."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np
import pytest

from tools.abi.acl import Library

NAME = "aclnnAdaptiveAvgPool2dBackward"
PARAM_NULLPTR, PARAM_INVALID, RUNTIME_ERROR, INNER_NULLPTR = 161001, 161002, 361001, 561103
SHAPE, GRAD_SHAPE = (2, 3, 4, 4), (2, 3, 2, 2)
TRANSPOSED = (48, 16, 1, 4)
SETTERS = [prefix + kind + "TensorAddr" for prefix in ("aclSet", "AclSet") for kind in ("Input", "Output", "")]

Busy = Callable[[object], None]


class Average:
    """An executor of NAME; its tensors have no address until one is set."""

    def __init__(
        self, acl: Library, stack: ExitStack, strides: tuple[int, ...] | None = None, repeats: bool = True
    ) -> None:
        self.acl = acl
        self.grad = stack.enter_context(acl.describe(GRAD_SHAPE))
        self.out = stack.enter_context(acl.describe(SHAPE, strides=strides))
        self.size, self.executor = acl.plan(NAME, self.grad, self.out, self.out)
        if repeats:
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


@pytest.mark.needs("nulls")
def test_both_phases_need_their_results_and_an_executor(acl: Library, average: Average) -> None:
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    phase, handles = getattr(acl, NAME + "GetWorkspaceSize"), (average.grad, average.out, average.out)
    assert phase(*handles, None, ctypes.byref(executor)) == PARAM_NULLPTR
    assert acl.says("workspaceSize")
    assert phase(*handles, ctypes.byref(size), None) == PARAM_NULLPTR
    assert acl.says("executor")
    assert getattr(acl, NAME)(None, 0, None, None) == PARAM_NULLPTR
    assert acl.says("executor")


def test_the_tensors_may_go_once_phase_two_has_returned(acl: Library, busy: Callable[[object], None]) -> None:
    with acl.buffer(64) as grad_address, acl.buffer(256) as out_address, acl.stream() as stream:
        acl.upload(grad_address, np.full(4, 4, np.float32))
        busy(stream)
        with (
            acl.describe((1, 1, 2, 2), address=grad_address) as grad,
            acl.describe((1, 1, 4, 4)) as self,
            acl.describe((1, 1, 4, 4), address=out_address) as out,
        ):
            size, executor = acl.plan(NAME, grad, self, out)
            acl.call(NAME, None, size, executor, stream)
        acl.call("aclrtSynchronizeStream", stream)
        assert (acl.download(out_address, np.zeros(16, np.float32)) == 1).all()


def test_strided_tensors_need_a_workspace(acl: Library) -> None:
    with ExitStack() as stack:
        tensors = [stack.enter_context(acl.tensor(grad_of(1))), stack.enter_context(acl.tensor(np.zeros(SHAPE, "f4")))]
        launch = getattr(acl, NAME)
        average = Average(acl, stack, TRANSPOSED, repeats=False)
        size = average.size
        assert size >= 2 * 3 * 4 * 4 * 4
        addresses = [each.address for each in tensors]
        assert average.launch(*addresses) == PARAM_NULLPTR
        assert acl.says("workspace")
        workspace = stack.enter_context(acl.buffer(size))
        average = Average(acl, stack, TRANSPOSED, repeats=False)
        assert launch(workspace, size - 1, average.executor, None) == PARAM_INVALID
        assert acl.says(str(size))
        average = Average(acl, stack, TRANSPOSED, repeats=False)
        assert average.launch(*addresses, workspace) == 0
        acl.call("aclrtSynchronizeStream", None)
        assert (tensors[1].read_storage() == 1).all()


def test_tensors_need_an_address_unless_only_their_shape_matters(acl: Library, average: Average) -> None:
    with acl.tensor(grad_of(1)) as grad, acl.tensor(np.zeros(SHAPE, np.float32)) as out:
        assert average.launch(None, out.address) == PARAM_NULLPTR
        assert acl.says("[2, 3, 2, 2]")
        assert average.launch(grad.address, None) == PARAM_NULLPTR
        assert acl.says("[2, 3, 4, 4]")
        acl.run(NAME, grad.handle, average.out, out.handle)
        assert (out.read_storage() == 1).all()


def test_aclnn_init_and_finalize(acl: Library) -> None:
    assert acl.aclnnInit(None) == 0
    assert acl.aclnnInit(None) == 0
    assert acl.aclnnFinalize() == 0


def test_what_is_written_behind_the_workspace_is_noticed(run_program: Callable[..., list[str]]) -> None:
    # No kernel does it, so the test does, while a launch hangs between the writing of the red zone and the kernel. The
    # queries share a lock with the hanging launch, so they order the write with the launch.
    hang = {"kind": "hang", "at": 1, "count": 2, "duration_ms": 800}
    lines = run_program(
        "import numpy as np, time\n"
        "acl.call('aclInit', None)\n"
        "acl.call('aclrtSetDevice', 0)\n"
        f"name = {NAME!r}\n"
        "status = ctypes.c_int()\n"
        "storage = np.zeros((2, 3, 4, 4), np.float32)\n"
        "with acl.tensor(np.ones((2, 3, 2, 2), np.float32)) as grad, acl.tensor(storage) as self:\n"
        "    with acl.tensor(storage, storage.transpose(0, 1, 3, 2)) as out, acl.buffer(1 << 12) as workspace:\n"
        "        for offset in (512, 513):\n"
        "            size, executor = acl.plan(name, grad.handle, self.handle, out.handle)\n"
        "            acl.call(name, workspace, size, executor, None)\n"
        "            time.sleep(0.1)\n"
        "            acl.call('aclrtStreamQuery', None, ctypes.byref(status))\n"
        "            ctypes.memset(workspace + size - offset, 1, 1)\n"
        "            acl.call('aclrtStreamQuery', None, ctypes.byref(status))\n"
        "            print(acl.aclrtSynchronizeStream(None), acl.message())\n"
        "        print(acl.aclrtSynchronizeStream(None))\n",
        {"faults": [hang]},
    )
    for line, code in zip(lines, (507015, 0, 0), strict=True):
        assert line.split()[0] == str(code)
        assert ("behind the workspace" in line) == (code != 0)


@pytest.mark.needs("host memory")
@pytest.mark.parametrize(("planes", "expected"), [(1, 1), (4096, 0)])
def test_a_short_executor_has_written_its_output_when_phase_2_returns(acl: Library, planes: int, expected: int) -> None:
    grad, image = np.ones((1, planes, 16, 16), np.float32), np.zeros((1, planes, 32, 32), np.float32)
    with (
        acl.describe(grad.shape, address=grad.ctypes.data) as first,
        acl.describe(image.shape, address=image.ctypes.data) as out,
    ):
        _, executor = acl.plan(NAME, first, out, out)
        is_short = ctypes.c_int32(-1)
        assert acl.aclHostExecutorIsShort(executor, ctypes.byref(is_short)) == 0
        assert is_short.value == expected
        acl.call(NAME, None, 0, executor, None)
        if expected:
            np.testing.assert_array_equal(image, 0.25)
        acl.call("aclrtSynchronizeStream", None)
    np.testing.assert_array_equal(image, 0.25)


def test_whether_an_executor_is_short_is_asked_with_pointers(acl: Library) -> None:
    is_short = ctypes.c_int32(-1)
    assert acl.aclHostExecutorIsShort(None, ctypes.byref(is_short)) == PARAM_NULLPTR
    assert is_short.value == -1


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
    with acl.tensor(grad_of(2)) as grad, acl.tensor(np.zeros(SHAPE, np.float32)) as out:
        assert average.launch(grad.address, out.address, stream=0x1234567) == RUNTIME_ERROR
        assert acl.says("107017")
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
    with ExitStack() as stack:
        average = Average(acl, stack, TRANSPOSED)
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
