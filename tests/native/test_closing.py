"""Devices that close while there is work: every ticket is returned once, nothing leaks, and there is no deadlock."""

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.once

START = """
device = open_device(steered=True, stream_limit=1, copy_threads=1)
waiting = device.waiting
"""


@pytest.fixture
def run(run_program: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Runs a program on a device with one stream and one thread that copies; returns the lines that it prints."""
    return lambda program, **host: run_program(START + program, **host)


SLOW: list[dict[str, Any]] = [{"kind": "hang", "at": 1, "duration_ms": 500}]
"""The first kernel takes half a second."""

LEFT = """
class Content(np.ndarray):
    pass
seen = []
tickets = [waiting.new_ticket() for _ in range(8)]
for ticket in tickets[:6]:
    data = np.ones((1, 1, 1), np.float32).view(Content)
    seen.append(weakref.ref(data))
    device.native.submit(ticket, call, [data, None], deadline(60))
device.native.submit_batch(tickets[6], [(call, contents, b"")] * 3, deadline(60))
device.native.submit(tickets[7], call, contents, deadline(60))
wait_until(lambda: device.state().leased_stream_count)
del data, device.native
gc.collect()
ends = [waiting.end(ticket) for ticket in tickets]
print(len(ends[0]), {f"{type(end).__name__}: {end}" for end in ends[1:]})
print(waiting.completions.drain(), [each() for each in seen])
"""


def test_calls_that_have_not_begun_end_with_an_error(run: Callable[..., list[str]]) -> None:
    """The one under way ends well. Nothing keeps the inputs of the others."""
    assert run(LEFT, faults=SLOW) == ["16 {'RuntimeError: the device is closed'}", f"[] {[None] * 6}"]


LAST = """
(tensor,) = device.stage(100)
(released,) = device.released
tensor_device = device.native
del device.native
gc.collect()
# The one thread that releases is busy meanwhile, so the device closes first.
joined = waiting.new_ticket()
tensor_device.join(joined, [bytes(100 << 20)])
del tensor_device
del tensor
waiting.end(joined)
print(waiting.end(released))
print(waiting.completions.drain())
print(open_device().state().pool.allocated_bytes)
"""


@pytest.mark.parametrize("host_pointers", [True, False])
def test_tensors_may_be_the_last_to_have_the_device(run: Callable[..., list[str]], host_pointers: bool) -> None:
    assert run(LAST, host_pointers=host_pointers) == ["None", "[]", "0"]


WITH_WORK = """
(source,), (target,) = device.stage(4 << 20), device.stage(4 << 20)
first, second = device.released
tickets = [waiting.new_ticket() for _ in range(3)]
device.native.write(tickets[0], [(source.native, 0, bytes(4 << 20))], deadline(60))
device.native.submit_into(
    tickets[1], plan((1, 1024, 1024), (1, 1024, 1024)), [source.native, None], [target.native], deadline(60)
)
device.native.read(tickets[2], [(target.native, 0, b"", 10)], deadline(60))
del source, target, device.native
gc.collect()
print([type(waiting.end(ticket)).__name__ for ticket in tickets])
print(waiting.end(first), waiting.end(second), waiting.completions.drain())
"""


@pytest.mark.parametrize("host_pointers", [True, False])
def test_work_on_tensors_keeps_the_device(run: Callable[..., list[str]], host_pointers: bool) -> None:
    assert run(WITH_WORK, faults=SLOW, host_pointers=host_pointers) == [
        "['NoneType', 'list', 'list']",
        "None None []",
    ]


ABANDONED = """
(source,), (target,) = device.stage(4), device.stage(16)
source.write(0, b"grad")
released = device.released
ticket = waiting.new_ticket()
device.native.submit_into(ticket, call, [source.native, None], [target.native], deadline(0.1))
print(waiting.end(ticket).fault)
del source, target
wait_until(steer.IsDone)
native, device.native = device.native, None
waiting_for = waiting.new_ticket()
native.release_finished(waiting_for)
del native
print(waiting.end(waiting_for), *[waiting.end(each) for each in released])
print(waiting.completions.drain())
"""


@pytest.mark.parametrize("host_pointers", [True, False])
def test_an_abandoned_call_may_be_the_last_to_have_the_device(
    run: Callable[..., list[str]], host_pointers: bool
) -> None:
    """The device's own thread finds that the call has ended, and cannot wait for itself."""
    assert run(ABANDONED, faults=SLOW, host_pointers=host_pointers) == ["timeout", "None None None", "[]"]


OTHERS_RUN = """
LAUNCH = b"aclnnAdaptiveAvgPool2dBackward"
steer.Hang(LAUNCH, 1, False)
ticket = waiting.new_ticket()
device.native.submit(ticket, call, contents, deadline(60))
wait_until(lambda: steer.Hanging(LAUNCH))
closing = threading.Event()
def end_the_kernel():
    closing.wait()
    time.sleep(0.1)
    steer.Release()
thread = threading.Thread(target=end_the_kernel)
thread.start()
closing.set()
del device.native
thread.join()
print(len(waiting.end(ticket)))
"""


def test_closing_waits_without_the_interpreters_lock(run: Callable[..., list[str]]) -> None:
    """The kernel goes on only if another thread of Python does."""
    assert run(OTHERS_RUN) == ["16"]


EXITS = """
kept = device.stage(100)
for _ in range(3):
    device.native.submit(waiting.new_ticket(), call, contents, deadline(60))
    device.native.write(waiting.new_ticket(), [(kept[0].native, 0, b"x")], deadline(60))
    device.native.stage(waiting.new_ticket(), waiting.new_ticket(), [(10, False)], deadline(60))
print("exits", flush=True)
"""


@pytest.mark.parametrize("forget", ["", "del device", "device.waiting = None", "globals().clear()"])
def test_the_interpreter_ends_while_there_is_work(run: Callable[..., list[str]], forget: str) -> None:
    assert run(EXITS + forget, faults=SLOW) == ["exits"]


LATE_EXIT = """
device.native.submit(waiting.new_ticket(), call, contents, deadline(0.1))
(source,), (target,) = device.stage(4), device.stage(16)
device.native.submit_into(waiting.new_ticket(), call, [source.native, None], [target.native], deadline(0.1))
print("exits", flush=True)
"""


def test_the_interpreter_ends_while_a_late_kernel_runs(run: Callable[..., list[str]]) -> None:
    assert run(LATE_EXIT, faults=SLOW) == ["exits"]


NO_THREADS = """
in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (in_use + (100 << 20), resource.RLIM_INFINITY))
try:
    open_device(stream_limit=64)
except (OSError, MemoryError) as error:
    print(type(error).__name__)
print(len(device.execute(call, contents)))
"""


def test_a_device_whose_threads_the_system_refuses_is_not_opened(run: Callable[..., list[str]]) -> None:
    name, size = run(NO_THREADS)
    assert name in ("BlockingIOError", "MemoryError")
    assert size == "16"


EXECUTORS = """
device = open_device(steered=True, stream_limit=1, executor_limit=8)
DESTROY = b"aclDestroyAclOpExecutor"
for width in range(1, 6):
    pool(device, np.ones((1, 1, 1), np.float32), (1, 2, width))
kept = device.state().executors.entry_count
del device
gc.collect()
print(kept, steer.Calls(DESTROY), steer.Strangers())
"""


def test_a_thread_that_ran_calls_destroys_the_executors(run: Callable[..., list[str]]) -> None:
    """What the library keeps of them in that thread is still there."""
    assert run(EXECUTORS) == ["5 5 0"]
