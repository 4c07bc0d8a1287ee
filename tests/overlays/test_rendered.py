"""What the schemas cannot tell of overlays: that their parts fit each other, the server and the monitoring."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from aclgrad_server.access.identities import read_identities
from aclgrad_server.settings import Settings
from tools.overlays.components import COMPONENTS, FOLDER
from tools.overlays.rendering import EXAMPLE, Document, Rendered, render, write_overlay

MTLS = COMPONENTS / "mtls"
MONITORING = FOLDER.parent / "monitoring"


@pytest.fixture(scope="module")
def example() -> Rendered:
    return render(EXAMPLE)


def variables(container: Document) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container.get("env", ())}


def named(it: Rendered) -> dict[tuple[str, str], Document]:
    return {(each["kind"], each["metadata"]["name"]): each for each in it.documents}


@pytest.mark.parametrize("name", ["host", "ascend"])
def test_overlays_have_their_image_settings_and_policy(name: str) -> None:
    it = render(FOLDER / "overlays" / name)
    (container,) = it.containers
    assert container["image"] == f"aclgrad:{name}"
    assert container["resources"]["limits"]["memory"]
    volumes = {each["name"]: each for each in it.pod["spec"]["volumes"]}
    (settings,) = it.of_kind("ConfigMap")
    assert volumes["settings"]["configMap"]["name"] == settings["metadata"]["name"]
    assert settings["data"] == {"aclgrad.toml": (FOLDER / "base/aclgrad.toml").read_text()}
    (policy,) = it.of_kind("NetworkPolicy")
    assert policy["spec"] == yaml.safe_load((FOLDER / "base/networkpolicy.yaml").read_text())["spec"]


def test_variables_of_pods_are_settings_of_the_server(example: Rendered) -> None:
    known = {f"ACLGRAD_{name.upper()}" for name in Settings.model_fields}
    for it in (example, render(FOLDER / "overlays/host")):
        told = {name for name in variables(it.containers[0]) if name.startswith("ACLGRAD_")}
        assert told
        assert told <= known


def test_mtls_takes_certificates_and_identities_from_where_they_are_mounted(example: Rendered) -> None:
    documents = named(example)
    (container,) = example.containers
    files = {name: value for name, value in variables(container).items() if name.startswith("ACLGRAD_")}
    assert files.keys() == {f"ACLGRAD_{name}" for name in ("TLS_CERTIFICATE", "TLS_KEY", "TLS_CLIENT_CA", "IDENTITIES")}
    mounts = {each["mountPath"]: each["name"] for each in container["volumeMounts"] if each.get("readOnly")}
    volumes = {each["name"]: each for each in example.pod["spec"]["volumes"]}
    certificates = [each["spec"] for each in example.of_kind("Certificate")]
    for file in files.values():
        folder, _, name = file.rpartition("/")
        volume = volumes[mounts[folder]]
        if "secret" in volume:
            assert name in ("tls.crt", "tls.key", "ca.crt")
            (own,) = (each for each in certificates if each["secretName"] == volume["secret"]["secretName"])
            assert set(own["dnsNames"]) == {
                each["metadata"]["name"]
                for each in example.of_kind("Service")
                if each["spec"]["ports"][0]["name"] == "grpc"
            }
        else:
            assert documents["ConfigMap", volume["configMap"]["name"]]["data"][name] == (MTLS / name).read_text()
    clients = {name for each in certificates for name in each.get("dnsNames", ())}
    identities = read_identities(MTLS / "identities.toml")
    assert len(identities.of_sans([("dns", name.encode()) for name in clients])) == 1


def test_services_name_the_protocol_that_a_pod_speaks(example: Rendered) -> None:
    plain = render(FOLDER / "overlays/ascend")
    for it, protocol in ((plain, "kubernetes.io/h2c"), (example, "https")):
        ports = [port for each in it.of_kind("Service") for port in each["spec"]["ports"]]
        assert [each["appProtocol"] for each in ports if each["name"] == "grpc"] == [protocol, protocol]
        assert not any("appProtocol" in each for each in ports if each["name"] == "admin")


def test_monitoring_brings_what_prometheus_and_grafana_read(example: Rendered) -> None:
    documents = named(example)
    dashboard = documents["ConfigMap", "aclgrad-dashboard"]
    assert dashboard["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert dashboard["data"] == {"aclgrad.json": (MONITORING / "dashboard.json").read_text()}
    assert {
        ("ServiceMonitor", "aclgrad"),
        ("PrometheusRule", "aclgrad"),
        ("Service", "aclgrad-admin"),
    } <= documents.keys()


SETS = {
    "host plaintext": (None, None, set()),
    "ascend plaintext": ("huawei.com/Ascend910", None, {"driver"}),
    "ascend mtls volcano": ("huawei.com/Ascend910", "ascend-910b", {"driver"}),
    "ascend plaintext docker-runtime volcano 310P": ("huawei.com/Ascend310P", "ascend-310P", set()),
}
"""Components -> the kind of card, Volcano's label, and what a pod mounts of the node's driver."""


@pytest.mark.parametrize("components", SETS)
def test_a_pod_has_one_card_its_scheduler_and_the_driver(tmp_path: Path, components: str) -> None:
    card, label, driver = SETS[components]
    it = render(write_overlay(tmp_path / "mine", components.split()))
    (container,) = it.containers
    for asked in ("requests", "limits"):
        cards = {name: count for name, count in container["resources"][asked].items() if "huawei" in name}
        assert cards == ({card: "1"} if card else {})
    assert it.pod["spec"].get("schedulerName") == ("volcano" if label else None)
    assert it.pod["metadata"]["labels"].get("ring-controller.atlas") == label
    chosen = {"fieldRef": {"fieldPath": f"metadata.annotations['{card}']"}} if label else None
    assert variables(container).get("ASCEND_VISIBLE_DEVICES") == chosen
    of_node = {each["name"] for each in it.pod["spec"]["volumes"] if "hostPath" in each}
    assert of_node & {"driver"} == driver
    assert bool(of_node) == bool(driver)
    assert variables(container).get("ACLGRAD_INSECURE") == (None if "mtls" in components else "true")
    if card != "huawei.com/Ascend910":
        assert "910" not in yaml.safe_dump(it.deployment)


def test_everything_is_in_the_namespace_of_the_overlay(example: Rendered) -> None:
    assert {each["metadata"].get("namespace") for each in example.documents} == {"aclgrad"}


def test_autoscaling_says_what_keda_reads(example: Rendered) -> None:
    """The shapes are those of KEDA's documentation, as far as they are used. Values of `metadata` are texts."""
    (scaled,) = example.of_kind("ScaledObject")
    spec = scaled["spec"]
    assert (scaled["apiVersion"], scaled["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    assert spec.keys() == {"scaleTargetRef", "minReplicaCount", "maxReplicaCount", "advanced", "triggers"}
    places, cpu = spec["triggers"]
    assert places["type"] == "prometheus"
    assert places["metadata"].keys() == {"serverAddress", "query", "threshold", "ignoreNullValues"}
    assert (cpu["type"], cpu["metricType"]) == ("cpu", "Utilization")
    assert cpu["metadata"].keys() == {"containerName", "value"}
    assert all(isinstance(value, str) for each in (places, cpu) for value in each["metadata"].values())
    # Prometheus has the address that the operator gives it, in the namespace that reaches the admin port.
    (policy,) = example.of_kind("NetworkPolicy")
    monitoring = policy["spec"]["ingress"][1]["from"][0]["namespaceSelector"]["matchLabels"][
        "kubernetes.io/metadata.name"
    ]
    assert places["metadata"]["serverAddress"] == f"http://prometheus-operated.{monitoring}:9090"
