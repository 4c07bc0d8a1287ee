"""The clients of examples/ in other languages against servers: `make test-languages` sets them up.

They check every gradient by arithmetic of their own and print the same lines.
"""

import subprocess

import pytest

from tests.e2e.admin_pages import value
from tests.e2e.workers.hosts import Host
from tools.serving import Server

MANY = {"node": ("node", "examples/node/many.js"), "cpp": ("build/cpp/many",)}
PROGRAMS = {"node": ("node", "examples/node/gradients.js"), "cpp": ("build/cpp/gradients",)}
SPREADING = {"node": ("node", "examples/node/workers.js"), "cpp": ("build/cpp/workers",)}
NO_SERVER = "127.0.0.1:1"
"""A port below those that servers of tests get."""


def run(language: str, address: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROGRAMS[language], address], capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize("language", PROGRAMS)
def test_gradients_are_right(language: str, server: Server) -> None:
    done = run(language, server.address)
    assert (done.returncode, done.stderr) == (0, "")
    verdicts = [line.split()[:3] for line in done.stdout.splitlines()[1:]]
    assert verdicts == [["one", "call", "right"], ["a", "program", "right"], ["in", "chunks", "right"]]
    assert "; step 2: INVALID_FIELD, starts with (1, 3)" in done.stdout
    assert "; step 3: INPUT_FAILED\n" in done.stdout


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_refused_call_and_a_missing_server_are_reported_in_one_line(language: str) -> None:
    with Server("--shape-only", "off") as server:
        refused = run(language, server.address)
    text = "FAILED_PRECONDITION INPUT_VALUES_REQUIRED: inputs[self] came without values"
    for done, begin in ((refused, text), (run(language, NO_SERVER), "UNAVAILABLE: ")):
        assert done.returncode == 1
        assert done.stderr.startswith(begin)
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(("channels", "calls"), [(1, 2000), (20, 50)])
@pytest.mark.parametrize("language", MANY)
def test_no_call_is_lost_however_many_are_made_at_once(
    language: str, server: Server, channels: int, calls: int
) -> None:
    """None is refused by gRPC's core, which gives no reason."""
    command = [*MANY[language], server.address, str(channels), str(calls)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"{channels * calls} right"]


@pytest.mark.parametrize("language", SPREADING)
def test_calls_spread_over_the_workers_of_a_host(language: str, server: Server) -> None:
    with Host() as host:
        alone, spread = (
            subprocess.run(
                [*SPREADING[language], address, "100"], capture_output=True, text=True, timeout=100, check=False
            )
            for address in (server.address, host.address)
        )
        for done in (alone, spread):
            assert (done.returncode, done.stderr, done.stdout) == (0, "", "100 right\n")
        calls = [
            value(host.admin, "aclgrad_calls_total", worker=worker, method="ExecuteOperator") or 0 for worker in "01"
        ]
    assert sum(calls) == 100
    assert min(calls) > 20
