"""What the doctor says of a host with several workers, whose pages are those of a supervisor."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from aclgrad.check.rows import Verdict
from aclgrad_server.doctor import live
from aclgrad_server.supervisor.metrics import WorkerMetrics, merged
from tests.server.doctor.test_rules import SOUND

INFO = 'aclgrad_info{version="1.0",product="910B",library="libacl_host.so",runtime_version="1.14.0"} 1\n'
SOUND_WORKER = f"{SOUND}{INFO}aclgrad_ready 1\naclgrad_start_time_seconds 1e9\n"
READY = "ready\nworker 0: ready\nworker 1: ready\n"


@contextmanager
def host(*workers: WorkerMetrics, before: tuple[WorkerMetrics, ...] = (), ready: str = READY) -> Iterator[str]:
    """Yields the address of a host that answers so; at first, its metrics may be others."""
    answers = [merged(before or workers), merged(workers)]

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = {"/livez": b"alive\n", "/readyz": ready.encode()}.get(self.path) or answers.pop(0)
            self.send_response(503 if self.path == "/readyz" and ready.startswith("not") else 200)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.time, "sleep", lambda _: None)


def told(address: str) -> list[tuple[str, Verdict, str]]:
    """Returns topic, verdict and message of each row."""
    return [(topic, finding.verdict, finding.message) for topic, (_, finding) in live.examine(address)[1]]


def wrong(address: str) -> list[tuple[str, Verdict, str]]:
    return [row for row in told(address) if row[1] is not Verdict.PASSED]


def test_a_sound_host_has_nothing_to_report() -> None:
    with host(WorkerMetrics(0, SOUND_WORKER, 0), WorkerMetrics(1, SOUND_WORKER, 0)) as address:
        rows = told(address)
    assert {verdict for _, verdict, _ in rows} == {Verdict.PASSED}
    (summary,) = (message for topic, _, message in rows if topic == "server")
    assert re.fullmatch(
        r"2 of 2 workers are ready, version 1.0 on 910B with libacl_host.so, ready for .*, 2100 calls, 0 a second now",
        summary,
    )


def test_each_rule_judges_each_worker_by_itself() -> None:
    """Worker 1 has a fault of its own; the limit and the counters that it is compared with are its own, too."""
    late = SOUND_WORKER.replace('oldest_step_seconds{device="0"} 0.2', 'oldest_step_seconds{device="0"} 31')
    faulty = 'aclgrad_calls_total{operator="a",method="ExecuteOperator",reason="INTERNAL_ERROR"} 3\n'
    now = WorkerMetrics(0, SOUND_WORKER + faulty, 0), WorkerMetrics(1, late, 0)
    with host(*now) as address:
        ((_, verdict, step), (_, _, faults)) = wrong(address)
    assert verdict is Verdict.FAILED
    assert step.startswith("worker 1: a step of device 0 has taken 31.0 s, and after 60 s")
    assert faults.startswith("worker 0: 3 calls ended with INTERNAL_ERROR since the start, 0 of them")


@pytest.mark.parametrize(
    ("ready", "reason"),
    [
        ("worker 1: not ready: restarts in 4 s after signal 9", "restarts in 4 s after signal 9"),
        ("", "does not answer"),
    ],
)
def test_a_worker_that_is_down_is_told_with_its_reason(ready: str, reason: str) -> None:
    """Also if its supervisor has not noticed yet."""
    now = WorkerMetrics(0, SOUND_WORKER, 0), WorkerMetrics(1, None, 0)
    with host(*now, ready=f"ready\nworker 0: ready\n{ready}\n") as address:
        ((topic, verdict, message),) = wrong(address)
    assert (topic, verdict) == ("worker", Verdict.FAILED)
    assert message.startswith(f"worker 1: {reason}; ")
    assert message.endswith("(docs/runbook.md#aclgradworkerdown)")


def test_a_worker_that_lives_and_is_not_ready() -> None:
    now = WorkerMetrics(0, SOUND_WORKER, 0), WorkerMetrics(1, "aclgrad_ready 0\n", 0)
    ready = "ready\nworker 0: ready\nworker 1: not ready: device 1 failed the self-test\n"
    with host(*now, ready=ready) as address:
        ((topic, verdict, message),) = wrong(address)
    assert (topic, verdict) == ("worker", Verdict.FAILED)
    assert message.startswith("worker 1: device 1 failed the self-test; ")
    assert message.endswith("#aclgradnotready)")


def test_a_host_without_a_worker_that_answers() -> None:
    ready = "not ready\nworker 0: not ready: starting\nworker 1: not ready: given up: exit code 1\n"
    with host(WorkerMetrics(0, None, 0), WorkerMetrics(1, None, 0), ready=ready) as address:
        messages = [message.partition("; ")[0] for _, _, message in wrong(address)]
    assert messages == ["not ready", "worker 0: starting", "worker 1: given up: exit code 1"]


def test_restarts_are_noted_and_new_ones_fail() -> None:
    first = WorkerMetrics(0, SOUND_WORKER, 2), WorkerMetrics(1, SOUND_WORKER, 3)
    now = WorkerMetrics(0, SOUND_WORKER, 2), WorkerMetrics(1, SOUND_WORKER, 4)
    with host(*now, before=first) as address:
        (present, past) = wrong(address)
    assert present[1] is Verdict.FAILED
    assert present[2].startswith("worker 1: 4 restarts of this worker since the start, 1 of them while")
    assert past[1] is Verdict.NOTED
    assert past[2].startswith("worker 0: 2 restarts of this worker since the start, 0 of them")
