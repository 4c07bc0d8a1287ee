"""What has to hold of an overlay that is rendered. Each problem names the component and the remedy."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from tools.overlays.rendering import OURS, Document, Rendered

SELECTING: Final = ("Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service")


def cards(container: Document, asked: str = "limits") -> dict[str, str]:
    resources = container.get("resources", {}).get(asked, {})
    return {name: count for name, count in resources.items() if name.startswith("huawei.com/")}


def variables(container: Document) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container.get("env", ())}


def kind_of_card(it: Rendered) -> str:
    return "huawei.com/Ascend310P" if it.has("310P") else "huawei.com/Ascend910"


def one_card(it: Rendered) -> Iterator[str]:
    wanted = [{kind_of_card(it): "1"}] if it.has("ascend") else []
    for asked in ("requests", "limits"):
        found = [cards(each, asked) for each in it.containers if cards(each, asked)]
        if found != wanted:
            yield f"the pod {asked} the cards {found}, not {wanted}: leave its card to the components ascend and 310P"


def one_scheduler(it: Rendered) -> Iterator[str]:
    label = "ascend-310P" if it.has("310P") else "ascend-910b"
    expected = ("volcano", label) if it.has("volcano") else (None, None)
    said = it.pod["spec"].get("schedulerName"), it.pod["metadata"]["labels"].get("ring-controller.atlas")
    if said != expected:
        yield f"the scheduler and its label are {said}, not {expected}: leave both to the component volcano"


def visible_card(it: Rendered) -> Iterator[str]:
    chosen = {"fieldRef": {"fieldPath": f"metadata.annotations['{kind_of_card(it)}']"}} if it.has("volcano") else None
    for each in it.containers:
        name, told = each["name"], variables(each).get("ASCEND_VISIBLE_DEVICES")
        if cards(each) and told != chosen:
            yield f"container {name} sets ASCEND_VISIBLE_DEVICES: leave it to the device plugin or to volcano"
        elif not cards(each) and it.has("docker-runtime") and told != "void":
            yield f"container {name} has no card: with docker-runtime, set ASCEND_VISIBLE_DEVICES=void in it"


def driver(it: Rendered) -> Iterator[str]:
    of_node = sorted(each["name"] for each in it.pod["spec"]["volumes"] if "hostPath" in each)
    if of_node and it.has("docker-runtime"):
        yield f"volumes {of_node} are of the node, but docker-runtime mounts the driver: remove them, or docker-runtime"
    elif of_node and not it.has("ascend"):
        yield f"volumes {of_node} are of the node, and a pod without the component ascend needs none: remove them"
    elif it.has("ascend") and not it.has("docker-runtime") and "driver" not in of_node:
        yield "the driver is not mounted: keep the volumes of ascend, or add docker-runtime after it"


def volumes(it: Rendered) -> Iterator[str]:
    there = {each["name"]: each for each in it.pod["spec"]["volumes"]}
    mounted = {mount["name"] for each in it.containers for mount in each.get("volumeMounts", ())}
    if mounted != there.keys():
        yield f"volumes {sorted(mounted ^ there.keys())} are not both declared and mounted: do both, or neither"
    named = {each["configMap"]["name"] for each in there.values() if "configMap" in each}
    missing = named - {each["metadata"]["name"] for each in it.of_kind("ConfigMap")}
    if missing:
        yield f"there are no ConfigMaps {sorted(missing)}: generate them in the overlay"


def connections(it: Rendered) -> Iterator[str]:
    told = {name for each in it.containers for name in variables(each)}
    for component, variable in (("plaintext", "ACLGRAD_INSECURE"), ("mtls", "ACLGRAD_TLS_CLIENT_CA")):
        if it.has(component) != (variable in told):
            yield f"{variable} comes with the component {component} and with no other: leave it to {component}"


def selectors(it: Rendered) -> Iterator[str]:
    labels = it.pod["metadata"]["labels"].items()
    for each in (each for each in it.documents if each["kind"] in SELECTING):
        told = each["spec"].get("podSelector", each["spec"].get("selector"))
        wanted = told if each["kind"] == "Service" else told.get("matchLabels", {})
        if wanted.items() >= OURS.items() and not wanted.items() <= labels:
            yield f"{each['kind']} {each['metadata']['name']} selects {wanted}: give the pods these labels"


def autoscaling(it: Rendered) -> Iterator[str]:
    for scaled in it.of_kind("ScaledObject"):
        spec, pod = scaled["spec"], it.pod["spec"]
        of_type = {each["type"]: each["metadata"] for each in spec["triggers"]}
        if "replicas" in it.deployment["spec"]:
            yield "`replicas` of the Deployment would undo autoscaling at each kubectl apply: remove it"
        if spec["scaleTargetRef"]["name"] != it.deployment["metadata"]["name"]:
            yield f"autoscaling is for {spec['scaleTargetRef']['name']}: name the Deployment in scaleTargetRef"
        if spec["maxReplicaCount"] < spec["minReplicaCount"]:
            yield "maxReplicaCount of autoscaling is below minReplicaCount: raise the one or lower the other"
        for each in behavior(scaled)["scaleDown"]["policies"]:
            if each["value"] > 1 or each["periodSeconds"] <= pod["terminationGracePeriodSeconds"]:
                yield "autoscaling removes a pod while another one drains: remove one in more than the time to drain"
        namespace = it.deployment["metadata"].get("namespace")
        if f'{{namespace="{namespace}"}}' not in of_type["prometheus"]["query"]:
            yield (
                f"the query of autoscaling does not count the pods of the namespace {namespace}: copy `namespace` and "
                "`replacements` from deploy/kubernetes/overlays/cluster"
            )
        requests = {each["name"]: each["resources"].get("requests", {}) for each in it.containers}
        if "cpu" not in requests.get(of_type["cpu"]["containerName"], {}):
            yield "autoscaling measures a share of requested CPU, and the container requests none: name one that does"


def behavior(scaled: Document) -> Document:
    return scaled["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]


CHECKS: Final[tuple[Callable[[Rendered], Iterator[str]], ...]] = (
    one_card,
    one_scheduler,
    visible_card,
    driver,
    volumes,
    connections,
    selectors,
    autoscaling,
)
