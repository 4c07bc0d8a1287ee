"""The rolling update that is played is Kubernetes', its name server answers late as told, and lost calls are seen."""

import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import dns.message
import dns.query
import dns.rcode
import pytest

from tools.chaos.history import Event
from tools.rollout.deployment import MANIFEST, Deployment, has_ended
from tools.rollout.names import Answers, NameServer
from tools.rollout.report import TITLES, problems_of, rows_of

pytestmark = pytest.mark.once

MADE = Deployment(
    replicas=4,
    max_surge=1,
    max_unavailable=0,
    min_ready_s=0,
    pre_stop_s=5,
    grace_s=60,
    startup_period_s=2,
    readiness_period_s=5,
    drain_s=30,
    connection_age_s=60,
)


@dataclass
class FakePod:
    version: str
    is_available: bool = False
    is_leaving: bool = False


def play(deployment: Deployment, seed: int, *, is_broken: bool = False) -> Iterable[list[FakePod]]:
    """Yields the pods after each step of an update in which pods become ready, and end, in any order."""
    source = random.Random(seed)
    pods = [FakePod("old", is_available=True) for _ in range(deployment.replicas)]
    for _ in range(300):
        created, deleted = deployment.next_step(pods, "new")
        pods += [FakePod("new") for _ in range(created)]
        for pod in deleted:
            pod.is_leaving, pod.is_available = True, False
        yield pods
        for pod in source.sample(pods, 1):
            if pod.is_leaving:
                pods.remove(pod)
            else:
                pod.is_available = pod.is_available or not is_broken


@pytest.mark.parametrize(("surge", "unavailable"), [(1, 0), (0, 1), (2, 1), (4, 0)])
@pytest.mark.parametrize("seed", range(5))
def test_an_update_keeps_to_both_bounds_and_ends(surge: int, unavailable: int, seed: int) -> None:
    deployment = replace(MADE, max_surge=surge, max_unavailable=unavailable)
    for pods in play(deployment, seed):
        present = [pod for pod in pods if not pod.is_leaving]
        assert len(present) <= deployment.replicas + surge
        assert sum(pod.is_available for pod in present) >= deployment.replicas - unavailable
    assert has_ended(pods, "new", deployment.replicas)


def test_an_update_to_a_version_that_is_never_ready_stands_still() -> None:
    for pods in play(MADE, 0, is_broken=True):
        assert [pod.version for pod in pods] == ["old"] * 4 + ["new"]


def test_a_pod_that_serves_nobody_is_deleted_first() -> None:
    pods = [FakePod("bad"), *(FakePod("old", is_available=True) for _ in range(4))]
    assert MADE.next_step(pods, "old") == (0, pods[:1])


def test_the_manifest_is_read_with_the_defaults_of_kubernetes() -> None:
    deployment = Deployment.of_manifest()
    assert (deployment.max_surge, deployment.max_unavailable) == (1, 0)
    assert f"terminationGracePeriodSeconds: {deployment.grace_s:g}\n" in MANIFEST.read_text()
    assert f"sleep: {{seconds: {deployment.pre_stop_s:g}}}" in MANIFEST.read_text()


def test_answers_are_late_and_repeated() -> None:
    times = iter([0.0, 0.5, 1.0, 5.9, 6.0, 11.0])
    answers = Answers(lag_s=1.0, cache_s=5.0, clock=lambda: next(times))
    answers.publish(["127.0.1.1"])
    answers.publish(["127.0.1.2"])
    # The first answer is of 0 s, and stays until 6 s; the next is of 5 s.
    assert [answers.now()[0] for _ in range(4)] == [("127.0.1.1",), ("127.0.1.1",), ("127.0.1.2",), ("127.0.1.2",)]


def test_the_name_server_answers_in_the_protocol_of_names() -> None:
    answers = Answers(lag_s=0.0, cache_s=30.0)
    answers.publish(["127.0.1.1", "127.0.1.2"])
    with NameServer(answers) as server:
        host, _, port = server.address.partition(":")

        def ask(name: str, kind: str) -> dns.message.Message:
            return dns.query.udp(dns.message.make_query(name, kind), host, timeout=10, port=int(port))

        (found,) = ask("aclgrad-pods.default.svc.cluster.local", "A").answer
        assert sorted(map(str, found)) == ["127.0.1.1", "127.0.1.2"]
        assert 0 < found.ttl <= 30
        assert ask("aclgrad-pods", "AAAA").answer == []
        assert ask("aclgrad-pods", "AAAA").rcode() == dns.rcode.NOERROR
        assert ask("another", "A").rcode() == dns.rcode.NXDOMAIN


def call(number: int, begin: float, outcome: str = "right", **values: Any) -> list[Event]:
    name = f"a-{number}"
    about = {"client": "a/calls", "method": "unary", "servers": ["any pod", "another"], "deadline_s": 10.0}
    end = {"outcome": outcome, "retries": 0, "is_typed": True, "error": "SomeError"} | values
    return [
        {"kind": "begin", "operation": name, "time": begin, **about},
        {"kind": "end", "operation": name, "time": begin + 0.1, **end},
    ]


def pod(address: str, time: float, phase: str, **values: Any) -> Event:
    about = {"address": address, "version": "new", "names_itself": True}
    return {"kind": "pod", **about, "time": time, "phase": phase, **values}


def test_lost_and_wrong_calls_and_pods_that_end_badly_are_problems() -> None:
    good = call(1, 0.0)
    assert problems_of(good) == []
    assert len(problems_of([*good, *call(2, 1.0, "error")])) == 1
    assert len(problems_of([*good, *call(2, 1.0, "wrong")])) == 1
    assert len(problems_of([*good, pod("127.0.1.1:1", 2.0, "gone", code=3)])) == 1
    assert problems_of([*good, pod("127.0.1.1:1", 2.0, "gone", code=0)]) == []


def test_a_row_tells_how_late_the_last_new_pod_is_found() -> None:
    pods = [pod("old", 0.0, "ready"), pod("old", 2.0, "deleted"), pod("one", 1.0, "ready"), pod("two", 3.0, "ready")]
    servers = enumerate(["old", "one", "one", "two"])
    calls = list(itertools.chain.from_iterable(call(at, 2.0 * at, server=server) for at, server in servers))
    (row,) = rows_of([*pods, *calls])
    assert dict(zip(TITLES, row, strict=True))["all new pods in use after s"] == "3.1"
    assert problems_of([*pods, *calls]) == []
    (row,) = rows_of([*pods, *calls[:-2]])
    assert row[-1] == "-"
    assert problems_of([*pods, *calls[:-2]]) == ["a/calls never used a new pod"]
