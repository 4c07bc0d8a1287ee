"""A result in shared memory is the same in a forked child, whatever either process does afterwards."""

import pytest

from tests.client.test_shared_memory_exit import prefix, start

__all__ = ["prefix"]

# `result` is a result in shared memory; `call` makes another, in the same memory once the first is gone.
SETUP = """
import os, threading
truth = np.random.default_rng(0).standard_normal(result.shape, "float32")
result[...] = truth

def wait(pipe):
    assert os.read(pipe[0], 1) == b"x"

def tell(pipe):
    os.write(pipe[1], b"x")

def end(child):
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

go = os.pipe()
"""
IN_CHILD = """
if not (child := os.fork()):
    wait(go)
    np.testing.assert_array_equal(result, truth)
    result[...] = 5
    assert (result == 5).all()
    del result
    os._exit(0)
"""
PROGRAMS = {
    "parent_changes_it": IN_CHILD + "result[...] = 7; tell(go); end(child); assert (result == 7).all()",
    "parent_uses_the_memory_again": IN_CHILD
    + "del result; other = call(); other[...] = 7; tell(go); end(child); assert (other == 7).all()",
    "parent_closes": IN_CHILD + "client.close(); tell(go); end(child); np.testing.assert_array_equal(result, truth)",
    "client_was_closed_before": "client.close()" + IN_CHILD + "result[...] = 7; tell(go); end(child)",
    "parent_ends_first": "done = os.pipe()\nif not os.fork():\n    "
    + IN_CHILD.replace("\n", "\n    ")
    + "result[...] = 7; os._exit(0)\nos.wait(); tell(go)",
    "child_changes_it": """
if not (child := os.fork()):
    result[...] = 5
    os._exit(0)
end(child)
np.testing.assert_array_equal(result, truth)
""",
    "child_of_a_child": """
if not (child := os.fork()):
    if not (grandchild := os.fork()):
        wait(go)
        np.testing.assert_array_equal(result, truth)
        os._exit(0)
    result[...] = 5
    os.write(go[1], b"x")
    end(grandchild)
    os._exit(0)
end(child)
np.testing.assert_array_equal(result, truth)
""",
    "view_of_it": "view = result[0, 10:20]; del result; result = view; truth = truth[0, 10:20]"
    + IN_CHILD
    + "result[...] = 7; tell(go); end(child)",
    "regions_stay_the_parents": """
other = call()
kept = {other.ctypes.data}
del other
if not (child := os.fork()):
    mine = call()
    assert mine.ctypes.data not in kept
    mine[...] = 5
    client._regions.close()
    os._exit(0)
end(child)
other = call()
assert other.ctypes.data in kept
assert not other.any()
""",
    "threads_fork_at_once": """
def fork():
    for _ in range(5):
        if not (child := os.fork()):
            os._exit(0 if (result == truth).all() else 1)
        end(child)

threads = [threading.Thread(target=fork) for _ in range(4)]
for each in threads: each.start()
for each in threads: each.join()
np.testing.assert_array_equal(result, truth)
""",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_forked_child_has_a_copy_of_its_own(prefix: str, program: str) -> None:
    with start(prefix, SETUP + program) as process:
        _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (0, "")
