"""What every operator's executor does, shown by one operator."""

import ctypes
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tools.abi.acl import DeviceTensor, Library

NAME = "aclnnAdaptiveAvgPool2dBackward"
PARAM_NULLPTR, PARAM_INVALID, RUNTIME_ERROR = 161001, 161002, 361001

Tensors = tuple[DeviceTensor, DeviceTensor, DeviceTensor]


@pytest.fixture
def tensors(acl: Library) -> Iterator[Tensors]:
    image = np.zeros((2, 3, 4, 4), np.float32)
    with acl.tensor(np.ones((2, 3, 2, 2), np.float32)) as grad, acl.tensor(image) as self, acl.tensor(image) as out:
        yield grad, self, out


@pytest.fixture
def strided(acl: Library) -> Iterator[Tensors]:
    """As tensors, but the output is a transposed view: the operator needs a workspace for it."""
    storage = np.zeros((2, 3, 4, 4), np.float32)
    grad = np.ones((2, 3, 2, 2), np.float32)
    with (
        acl.tensor(grad) as first,
        acl.tensor(storage) as second,
        acl.tensor(storage, storage.transpose(0, 1, 3, 2)) as third,
    ):
        yield first, second, third


def plan(acl: Library, tensors: Tensors) -> tuple[int, ctypes.c_void_p]:
    return acl.plan(NAME, *(tensor.handle for tensor in tensors))


@pytest.mark.needs("nulls")
def test_phase_one_needs_both_results(acl: Library, tensors: Tensors) -> None:
    handles = [tensor.handle for tensor in tensors]
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    phase = getattr(acl, NAME + "GetWorkspaceSize")
    assert phase(*handles, None, ctypes.byref(executor)) == PARAM_NULLPTR
    assert acl.says("workspaceSize")
    assert phase(*handles, ctypes.byref(size), None) == PARAM_NULLPTR
    assert acl.says("executor")


def test_an_executor_that_never_runs_is_destroyed(acl: Library, tensors: Tensors) -> None:
    _, executor = plan(acl, tensors)
    assert acl.aclDestroyAclOpExecutor(executor) == 0


@pytest.mark.needs("nulls")
def test_phase_two_needs_an_executor(acl: Library) -> None:
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


def test_strided_tensors_need_a_workspace(acl: Library, strided: Tensors) -> None:
    size, executor = plan(acl, strided)
    assert size >= 2 * 3 * 4 * 4 * 4
    assert getattr(acl, NAME)(None, size, executor, None) == PARAM_NULLPTR
    assert acl.says("workspace")
    size, executor = plan(acl, strided)
    with acl.buffer(size) as workspace:
        assert getattr(acl, NAME)(workspace, size - 1, executor, None) == PARAM_INVALID
        assert acl.says(str(size))
        _, executor = plan(acl, strided)
        assert getattr(acl, NAME)(workspace, size, executor, None) == 0
        acl.call("aclrtSynchronizeStream", None)
    assert (strided[2].read_storage() == 0.25).all()


@pytest.mark.needs("nulls")
def test_a_bad_stream_is_a_runtime_error(acl: Library, tensors: Tensors) -> None:
    _, executor = plan(acl, tensors)
    assert getattr(acl, NAME)(None, 0, executor, 0x1234567) == RUNTIME_ERROR
    assert acl.says("107017")


def test_tensors_need_an_address_unless_only_their_shape_matters(acl: Library, tensors: Tensors) -> None:
    grad, _, out = tensors
    with acl.describe((2, 3, 2, 2)) as nowhere, acl.describe((2, 3, 4, 4)) as shape_only:
        _, executor = acl.plan(NAME, nowhere, shape_only, out.handle)
        assert getattr(acl, NAME)(None, 0, executor, None) == PARAM_NULLPTR
        assert acl.says("[2, 3, 2, 2]")
        acl.run(NAME, grad.handle, shape_only, out.handle)
    assert (out.read_storage() == 0.25).all()


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
        {"failure_mode": "continue", "faults": [hang]},
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
