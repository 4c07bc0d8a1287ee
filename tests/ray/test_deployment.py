"""Servers are deployed, found, replaced whatever ends them, and stopped, under calls that none of this costs."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final

import psutil
import pytest
import ray

import aclgrad
import aclgrad.ray
from aclgrad.ray._spec import NAMESPACE, Replica
from tests.e2e.workers.hosts import GRAD
from tools.calling import wait_until

from .clusters import HEAD, ON_CPU, OTHER, TwoNodes

WHOLE_S: Final = 30.0
CALLERS: Final = 3


def deploy(count: int = 2, **options: Any) -> str:
    return aclgrad.ray.deploy(count, **{"flags": ON_CPU, **options})


def compute(client: aclgrad.Client) -> None:
    assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).tolist() == [[[0.25] * 2] * 2]


@contextmanager
def calling(target: Any = aclgrad.ray.target) -> Iterator[Callable[[], set[str]]]:
    """Makes calls to the end of the block, none of which may fail; yields what returns the servers of new calls."""
    reports: list[aclgrad.CallReport] = []
    failures: list[BaseException] = []
    done = Event()

    def call() -> None:
        with aclgrad.Client(target, on_call=reports.append) as client:
            while not done.wait(0.002):
                try:
                    compute(client)
                except BaseException as error:
                    failures.append(error)

    def servers() -> set[str]:
        begin = len(reports)
        wait_until(lambda: len(reports) >= begin + 20 * CALLERS or bool(failures), look_s=0.01)
        return {str(each.server) for each in reports[begin:]}

    threads = [Thread(target=call) for _ in range(CALLERS)]
    for each in threads:
        each.start()
    try:
        servers()
        yield servers
        servers()
    finally:
        done.set()
        for each in threads:
            each.join(60)
    assert failures == []


def replica_on(host: str) -> Replica:
    (found,) = [each for each in aclgrad.ray.status() if each.node == host]
    return found


def wait_until_replaced(before: Replica, limit_s: float = WHOLE_S) -> Replica:
    """Returns the replica when it has another server that is ready."""
    begin = time.monotonic()

    def now() -> Replica:
        return aclgrad.ray.status()[before.number]

    wait_until(lambda: now().restarts > before.restarts and now().state == "ready", limit_s, look_s=0.1)
    print(f"replaced after {time.monotonic() - begin:.1f} s")
    return now()


def holder_of(replica: Replica) -> psutil.Process:
    """Returns the process of the actor that holds the server."""
    return psutil.Process(replica.process_id).parents()[0]


def has_ended(process_id: int) -> bool:
    return not psutil.pid_exists(process_id) or psutil.Process(process_id).status() == psutil.STATUS_ZOMBIE


def taken(host: str, port: int) -> socket.socket:
    """Listens as soon as the last thread of the port's server has ended."""
    end = time.monotonic() + 10
    while True:
        try:
            return socket.create_server((host, port))
        except OSError:
            assert time.monotonic() < end


def test_each_server_has_a_card_of_its_own_and_a_name_answers_where_they_are(nodes: TwoNodes) -> None:
    target = deploy(4)
    assert aclgrad.ray.target() == target
    replicas = aclgrad.ray.status()
    assert target == ",".join(each.address for each in replicas)
    assert sorted(each.node for each in replicas) == [HEAD, HEAD, OTHER, OTHER]
    cards = set()
    for each in replicas:
        environment = psutil.Process(each.process_id).environ()
        cards.add((each.node, environment["ASCEND_RT_VISIBLE_DEVICES"]))
        assert each.address.startswith(f"{each.node}:")
        raylet = holder_of(each).parent()
        assert raylet is not None
        assert psutil.Process(each.process_id).nice() == raylet.nice() < holder_of(each).nice()
    assert cards == {(HEAD, "0"), (HEAD, "1"), (OTHER, "0"), (OTHER, "1")}
    with calling(target) as servers:
        wait_until(lambda: len(servers()) == 4)
    aclgrad.ray.stop()
    assert all(has_ended(each.process_id) for each in replicas)
    with pytest.raises(aclgrad.ray.DeploymentError, match="nothing is deployed as 'aclgrad'"):
        aclgrad.ray.target()


def test_server_that_dies_is_replaced_where_clients_know_it(nodes: TwoNodes) -> None:
    target = deploy()
    before = replica_on(OTHER)
    with calling(target) as servers:
        psutil.Process(before.process_id).kill()
        after = wait_until_replaced(before)
        assert aclgrad.ray.target() == target
        wait_until(lambda: len(servers()) == 2)
    assert after.process_id != before.process_id
    assert after.reason.startswith("it ended by signal 9")


def test_actor_that_dies_takes_its_server_along_and_both_are_replaced(nodes: TwoNodes) -> None:
    target = deploy()
    before = replica_on(HEAD)
    with calling(target):
        holder_of(before).kill()
        wait_until(lambda: has_ended(before.process_id), 10)
        wait_until_replaced(before)
        assert aclgrad.ray.target() == target


def test_node_that_dies_loses_no_call_and_clients_follow(nodes: TwoNodes) -> None:
    """The other node has a card to spare. Ray takes about 15 s to be sure."""
    deploy()
    before = replica_on(OTHER)
    with calling() as servers:
        nodes.kill_other()
        after = wait_until_replaced(before)
        assert after.node == HEAD
        wait_until(lambda: servers() == set(aclgrad.ray.target().split(",")))
    assert has_ended(before.process_id)


def test_directory_that_dies_finds_its_servers_again(nodes: TwoNodes) -> None:
    target = deploy()
    before = [each.process_id for each in aclgrad.ray.status()]
    with calling(target):
        directory = ray.get_actor("aclgrad", NAMESPACE)
        process = ray.get(directory.__ray_call__.remote(lambda _: os.getpid()))
        psutil.Process(process).kill()
        wait_until(lambda: [each.process_id for each in aclgrad.ray.status()] == before, WHOLE_S, look_s=0.1)
        assert aclgrad.ray.target() == target
        assert [each.restarts for each in aclgrad.ray.status()] == [0, 0]
        # And watches them still.
        dies = aclgrad.ray.status()[0]
        psutil.Process(dies.process_id).kill()
        wait_until_replaced(dies)


def test_port_that_somebody_has_taken_meanwhile(nodes: TwoNodes) -> None:
    """The second attempt takes any port, on any node."""
    deploy(1)
    (before,) = aclgrad.ray.status()
    host, _, port = before.address.rpartition(":")
    psutil.Process(before.process_id).kill()
    with taken(host, int(port)):
        after = wait_until_replaced(before, 2 * WHOLE_S)
        assert after.address != before.address
        assert after.failed_starts == 0


def test_servers_on_the_cpu_share_the_processors_of_their_node(nodes: TwoNodes) -> None:
    deploy(2, resources={"CPU": 1}, flags=["--insecure"], name="on-cpu")
    try:
        replicas = aclgrad.ray.status("on-cpu")
        for each in replicas:
            process = psutil.Process(each.process_id)
            assert process.environ()["ACL_HOST_PROCESSES"] == str(os.cpu_count())
            assert "--backend host" in " ".join(process.cmdline())
        with aclgrad.Client(aclgrad.ray.target("on-cpu")) as client:
            compute(client)
    finally:
        aclgrad.ray.stop("on-cpu")
