"""What the schemas cannot tell of the manifests: that they fit each other, the server and its settings."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

import aclgrad
from aclgrad_server.exits import EXIT_LIMIT_S
from aclgrad_server.limits import MEMORY_SOFT_LIMIT, REPLY_BYTES
from aclgrad_server.settings import read_settings
from aclgrad_server.supervisor.worker import KILL_S
from tools.lab.rolling import CACHE_S, LAG_S
from tools.overlays.components import COMPONENTS, FOLDER
from tools.serving import Server, write_host_config

BASE = FOLDER / "base"
SETTINGS = BASE / "aclgrad.toml"
PROBES = {"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}


def manifests(folder: Path) -> list[dict[str, Any]]:
    """Returns every document of the folder but the kustomization."""
    files = sorted(set(folder.glob("*.yaml")) - {folder / "kustomization.yaml"})
    return [document for file in files for document in yaml.safe_load_all(file.read_text())]


def manifest(kind: str, folder: Path = BASE) -> dict[str, Any]:
    (found,) = (each for each in manifests(folder) if each["kind"] == kind)
    return found


def kustomization(folder: Path) -> dict[str, Any]:
    return yaml.safe_load((folder / "kustomization.yaml").read_text())


POD = manifest("Deployment")["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]


def test_every_selector_finds_the_pods_and_none_is_hidden() -> None:
    selectors = [manifest(kind)["spec"]["selector"] for kind in ("Deployment", "PodDisruptionBudget")]
    selectors.append(manifest("NetworkPolicy")["spec"]["podSelector"])
    selectors += [{"matchLabels": each["spec"]["selector"]} for each in manifests(BASE) if each["kind"] == "Service"]
    assert len(selectors) == 5
    assert all(selector == {"matchLabels": POD["metadata"]["labels"]} for selector in selectors)


@pytest.mark.parametrize("folder", [BASE, *sorted(COMPONENTS.iterdir())], ids=lambda path: path.name)
def test_every_file_is_taken(folder: Path) -> None:
    told = kustomization(folder)
    files = [each for each in told.get("resources", ()) if not each.startswith("../")]
    files += [each["path"] for each in told.get("patches", ()) if "path" in each]
    files += [file for each in told.get("configMapGenerator", ()) for file in each["files"]]
    assert sorted(files) == sorted(path.name for path in folder.iterdir() if path.name != "kustomization.yaml")
    # A name without an image would be ignored.
    assert [each["name"] for each in told.get("images", ())] in ([], [CONTAINER["image"]])


def test_pod_that_hangs_in_its_stop_can_still_say_why() -> None:
    """The process prints its stacks and ends `EXIT_LIMIT_S` after the drain limit; SIGKILL has to come later."""
    pre_stop_s = CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"]
    needed_s = pre_stop_s + read_settings({"config": SETTINGS}).drain_timeout_s + EXIT_LIMIT_S
    # So long a supervisor waits before it kills a worker, if somebody gives a pod several.
    assert POD["spec"]["terminationGracePeriodSeconds"] >= needed_s + KILL_S


def test_pod_serves_for_as_long_as_name_servers_may_repeat_an_answer_without_its_successor() -> None:
    """Otherwise a quick update ends all pods that clients know: `python -m tools.lab rolling cached` loses calls."""
    assert CONTAINER["lifecycle"]["preStop"]["sleep"]["seconds"] > CACHE_S + LAG_S


CARD_BYTES = 64 * 2**30


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the settings of the pod, on a card, in a cluster that adds the variables of a Service."""
    folder = tmp_path_factory.mktemp("pod")
    # The file in a checkout may belong to somebody else, whom the server would not trust.
    settings = shutil.copyfile(SETTINGS, str(folder / SETTINGS.name))
    config = write_host_config(folder, memory_bytes=CARD_BYTES, devices=2)
    with Server("--config", settings, "--acl-config", config, ACLGRAD_SERVICE_HOST="10.0.0.1") as server:
        yield server


def test_server_answers_where_the_probes_ask(pod: Server) -> None:
    flags = dict(zip(CONTAINER["args"][::2], CONTAINER["args"][1::2], strict=True))
    mount = next(each for each in CONTAINER["volumeMounts"] if each["name"] == "settings")["mountPath"]
    assert flags.pop("--config") == f"{mount}/{SETTINGS.name}"
    ports = {each["name"]: each["containerPort"] for each in CONTAINER["ports"]}
    assert flags == {"--listen": f"0.0.0.0:{ports['grpc']}", "--admin": f"0.0.0.0:{ports['admin']}"}
    for probe, path in PROBES.items():
        assert CONTAINER[probe]["httpGet"] == {"path": path, "port": "admin"}
        with urlopen(f"http://{pod.admin}{path}", timeout=60) as reply:
            assert reply.status == 200


def test_a_pod_is_one_worker_with_one_card(pod: Server) -> None:
    """Also where the runtime shows two; it starts no supervisor to count them, and has all of the card's memory."""
    assert read_settings({"config": SETTINGS}).workers == 1
    assert limits_of("ascend")["huawei.com/Ascend910"] == "1"
    assert "workers on the devices" not in pod.log
    with urlopen(f"http://{pod.admin}/metrics", timeout=60) as reply:
        assert "aclgrad_worker_up" not in reply.read().decode()
    assert {"name": "tmp", "mountPath": "/tmp"} in CONTAINER["volumeMounts"]
    with aclgrad.Client(pod.address) as client:
        (device,) = client.server_status().devices
    assert device.claimed_bytes_limit > 0.8 * CARD_BYTES


def test_variables_of_service_links_would_be_taken_for_settings(pod: Server) -> None:
    """What a cluster adds for a Service of this name, which is why the pod refuses it."""
    assert POD["spec"]["enableServiceLinks"] is False
    assert "ACLGRAD_SERVICE_HOST is not a setting" in pod.log


def test_only_monitoring_reaches_the_admin_port_and_only_clients_the_service() -> None:
    names = {each["containerPort"]: each["name"] for each in CONTAINER["ports"]}
    told = {names[rule["ports"][0]["port"]]: rule["from"] for rule in manifest("NetworkPolicy")["spec"]["ingress"]}
    assert told.keys() == {"grpc", "admin"}
    (clients,), (monitoring,) = told["grpc"], told["admin"]
    assert clients["podSelector"]["matchLabels"]
    assert monitoring["namespaceSelector"]["matchLabels"]
    services = [each for each in manifests(BASE) if each["kind"] == "Service"]
    assert "admin" not in {names[port["port"]] for each in services for port in each["spec"]["ports"]}


def limits_of(component: str) -> dict[str, str]:
    (container,) = manifest("Deployment", COMPONENTS / component)["spec"]["template"]["spec"]["containers"]
    return container["resources"]["limits"]


def test_limits_of_a_pod_on_the_cpu() -> None:
    """Memory has room for messages beside the pool, which the host library gives half, by docs/capacity.md.

    Without a limit of CPUs, the host library starts a thread for each core of the node.
    """
    limit_bytes = int(limits_of("host")["memory"].removesuffix("Gi")) * 2**30
    settings = read_settings({"config": SETTINGS})
    messages = (MEMORY_SOFT_LIMIT * limit_bytes - 90e6 - limit_bytes / 2 - 2 * REPLY_BYTES) / settings.max_message_bytes
    assert messages >= 2 * 4 * settings.streams
    assert 1 <= int(limits_of("host")["cpu"]) <= 16


def test_pod_may_do_nothing_it_need_not() -> None:
    own, of_pod = CONTAINER["securityContext"], POD["spec"]["securityContext"]
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert own["readOnlyRootFilesystem"]
    assert of_pod["runAsNonRoot"]
    assert of_pod["seccompProfile"]["type"] != "Unconfined"
    rights = (own["allowPrivilegeEscalation"], own.get("privileged"), POD["spec"]["automountServiceAccountToken"])
    assert not any(rights)
    assert "secret" not in json.dumps(manifests(BASE)).lower()
