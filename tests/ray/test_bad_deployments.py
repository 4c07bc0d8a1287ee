"""What cannot be deployed says so in time, and leaves nothing behind."""

import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
import ray

import aclgrad.ray
from aclgrad.ray import _actors
from aclgrad.ray._spec import CPU, NPU
from tools.calling import wait_until

from .clusters import ON_CPU, TwoNodes

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"name": "a:b"}, "name is 'a:b'; give letters, digits"),
    "no_servers": ({"count": 0}, "count is 0; give the number of servers, from 1 to 1000"),
    "no_number": ({"count": True}, "count is True"),
    "no_resources": ({"resources": {}}, "resources are {}; give those of a server"),
    "nothing_of_a_resource": ({"resources": {CPU: 0}}, "resources are {'CPU': 0}"),
    "memory": ({"resources": {NPU: 1, "memory": 4e9}}, "resources have memory, which no server is placed by"),
    "gpu": ({"resources": {"GPU": 1}}, "resources have GPU, which no server is placed by; give NPU, CPU or your own"),
    "too_little": ({"resources": {CPU: 1e-5}}, "0.0001 is the least that Ray counts"),
    "half_a_card": ({"resources": {NPU: 0.5}}, "resources have 0.5 NPU; give 1, because a server has one card"),
    "flags_as_text": ({"flags": "--insecure --streams 2"}, "give a list, for example ['--insecure', '--streams', '2']"),
    "listen": ({"flags": ["--listen", "a:1"]}, "flags have --listen, which Ray decides for each server"),
    "workers": ({"flags": ["--workers=2"]}, "flags have --workers=2, which Ray decides for each server"),
    "unknown_resource": (
        {"resources": {"TPU": 1}},
        "a server needs 1 TPU, and the most that a node of the cluster has",
    ),
    "large_server": (
        {"resources": {CPU: 3}},
        "a server needs 3 CPU, and the most that a node of the cluster has is 2 CPU",
    ),
}


def refused(told: str, **options: Any) -> None:
    options = {"count": 1, "flags": ON_CPU, **options}
    with pytest.raises(aclgrad.ray.DeploymentError, match=re.escape(told)):
        aclgrad.ray.deploy(**options)


def errors_of(program: str) -> str:
    """Returns what a program of its own process says on standard error."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stderr


def whole_again() -> bool:
    return bool(ray.available_resources().get(NPU) == 4) and not ray.util.list_named_actors(all_namespaces=True)


@pytest.mark.parametrize(("options", "told"), REFUSED.values(), ids=REFUSED)
def test_arguments_that_make_no_sense(nodes: TwoNodes, options: dict[str, Any], told: str) -> None:
    begin = time.monotonic()
    refused(told, **options)
    assert time.monotonic() - begin < 5


def test_a_deployment_that_fails_leaves_the_next_one_of_its_name_alone(nodes: TwoNodes) -> None:
    def has_servers() -> bool:
        with suppress(aclgrad.ray.DeploymentError):
            return any(replica.address for replica in aclgrad.ray.status())
        return False

    with ThreadPoolExecutor() as threads:
        first = threads.submit(aclgrad.ray.deploy, 5, flags=ON_CPU)
        wait_until(has_servers, look_s=0.1)
        aclgrad.ray.stop()
        second = aclgrad.ray.deploy(1, flags=ON_CPU)
        try:
            with pytest.raises(aclgrad.ray.DeploymentError):
                first.result(60)
            assert aclgrad.ray.target() == second
        finally:
            aclgrad.ray.stop()


def test_cluster_with_too_few_cards_says_how_many_servers_it_has(nodes: TwoNodes) -> None:
    aclgrad.ray.deploy(3, flags=ON_CPU, name="first")
    try:
        told = r"[01] of 2 servers of 'aclgrad' are ready after 10 s: .*server \d is placing.*\. A server needs 1 NPU; "
        with pytest.raises(aclgrad.ray.DeploymentError, match=told + "free in the cluster: 0 of 4 NPU"):
            aclgrad.ray.deploy(2, flags=ON_CPU, timeout_s=10)
        assert len(aclgrad.ray.target("first").split(",")) == 3
    finally:
        aclgrad.ray.stop("first")
    wait_until(whole_again, look_s=0.1)


def test_server_that_does_not_start_tells_its_last_words(nodes: TwoNodes) -> None:
    refused(
        "failed to start 3 times in a row: it ended with exit code 2: Error: No such option '--no-such-flag'",
        flags=["--no-such-flag"],
    )
    wait_until(whole_again, look_s=0.1)


def test_name_that_is_taken(nodes: TwoNodes) -> None:
    target = aclgrad.ray.deploy(1, flags=ON_CPU)
    refused("'aclgrad' is deployed already; call aclgrad.ray.stop('aclgrad') first")
    assert aclgrad.ray.target() == target


def test_names_that_nobody_deployed(nodes: TwoNodes) -> None:
    for function in (aclgrad.ray.target, aclgrad.ray.status, aclgrad.ray.stop):
        with pytest.raises(aclgrad.ray.DeploymentError, match="nothing is deployed as 'other'"):
            function("other")


def test_node_without_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_actors.sys, "executable", "/usr/bin/python3")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(aclgrad.ray.DeploymentError, match=r"node 10\.0\.0\.1 has no aclgrad-server"):
        _actors.program("10.0.0.1")


@pytest.mark.parametrize("call", ["target()", "deploy(1)"])
def test_program_that_is_in_no_cluster(call: str) -> None:
    told = "DeploymentError: this program is in no Ray cluster; call ray.init"
    assert told in errors_of(f"import aclgrad.ray; aclgrad.ray.{call}")


def test_machine_without_ray() -> None:
    told = "ModuleNotFoundError: aclgrad.ray needs ray, which is not installed; run: pip install 'aclgrad[ray]'"
    assert told in errors_of("import sys; sys.modules['ray'] = None; import aclgrad.ray")


def test_actors_load_neither_grpc_nor_arrays() -> None:
    assert not errors_of("import sys, aclgrad.ray._actors; assert 'grpc' not in sys.modules")
