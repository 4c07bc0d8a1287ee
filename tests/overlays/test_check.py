"""The check of overlays refuses what does not go together, and finds what is wrong with what does."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.overlays.checks import CHECKS
from tools.overlays.components import COMPONENTS, FOLDER, ORDER, components_of, refusals, sets
from tools.overlays.rendering import EXAMPLE, Rendered, RenderError, render, write_overlay

REFUSED = {
    ("plaintext",): "no component says what a pod computes on: add host or ascend",
    ("host",): "no component says how clients connect: add plaintext or mtls",
    ("host", "ascend", "plaintext"): "components host and ascend exclude each other",
    ("host", "plaintext", "mtls"): "components plaintext and mtls exclude each other",
    ("host", "plaintext", "volcano"): "component volcano needs ascend",
    ("host", "plaintext", "docker-runtime"): "component docker-runtime needs ascend",
    ("host", "plaintext", "310P"): "component 310P needs ascend",
    ("ascend", "plaintext", "autoscaling"): "component autoscaling needs monitoring",
    ("310P", "ascend", "plaintext"): "component 310P comes before ascend",
    ("ascend", "310P", "volcano", "mtls"): "component 310P comes before volcano",
    ("docker-runtime", "ascend", "mtls"): "component docker-runtime comes before ascend",
    ("host", "plaintext", "plaintext"): "component plaintext is listed more than once",
}
ON_CARDS = ("ascend", "docker-runtime", "volcano", "310P")


@pytest.mark.parametrize("components", REFUSED, ids=" ".join)
def test_components_that_do_not_go_together_are_refused_with_a_remedy(components: tuple[str, ...]) -> None:
    (problem,) = refusals(components)
    assert problem.startswith(REFUSED[components])
    assert any(f": {remedy} " in problem for remedy in ("add", "remove", "list"))


def test_every_component_is_known_and_goes_with_others() -> None:
    assert sorted(ORDER) == sorted(each.name for each in COMPONENTS.iterdir())
    allowed = [each for each in sets() if not any(refusals(each))]
    assert {name for each in allowed for name in each} == set(ORDER)
    # On the CPU: two ways to connect; alone, monitored, or scaled. On a card: three more choices.
    assert len(allowed) == 2 * 3 * (1 + 2**3)


def normal(value: Any) -> Any:
    """Returns the value with the lists of named things sorted, whose order means nothing."""
    if isinstance(value, dict):
        return {key: normal(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted(map(normal, value), key=str)
    return value


def test_order_means_nothing_where_it_is_not_refused(tmp_path: Path) -> None:
    components = components_of(EXAMPLE)
    orders = components, ("autoscaling", "monitoring", "mtls", "volcano", "ascend", "docker-runtime")
    assert sorted(orders[0]) == sorted(orders[1])
    first, second = (render(write_overlay(tmp_path / str(len(each[0])), each)) for each in orders)
    assert normal(first.documents) == normal(second.documents)


def test_kubectl_itself_refuses_a_310p_without_a_card(tmp_path: Path) -> None:
    with pytest.raises(RenderError, match="Ascend910"):
        render(write_overlay(tmp_path / "before", ("310P", "ascend", "plaintext")))


def test_an_overlay_of_an_overlay_has_its_components(tmp_path: Path) -> None:
    folder = write_overlay(tmp_path / "mine", ("volcano",))
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    told["resources"] = [str(FOLDER / "overlays/ascend")]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(told))
    assert components_of(folder) == ("ascend", "plaintext", "volcano")


@pytest.fixture(scope="module")
def example() -> Rendered:
    return render(EXAMPLE)


@pytest.fixture(scope="module")
def plain() -> Rendered:
    return render(FOLDER / "overlays/ascend")


def found(it: Rendered) -> list[str]:
    return [problem for check in CHECKS for problem in check(it)]


def test_overlays_have_no_problem(example: Rendered, plain: Rendered) -> None:
    assert found(example) == found(plain) == []


def spec(it: Rendered) -> Any:
    return it.pod["spec"]


def server(it: Rendered) -> Any:
    return it.containers[0]


def scaled(it: Rendered) -> Any:
    (each,) = it.of_kind("ScaledObject")
    return each["spec"]


def sidecar(it: Rendered, **also: Any) -> None:
    it.containers.append({"name": "sidecar", "resources": {}, **also})


CHANGES: dict[str, tuple[Callable[[Rendered], object], str]] = {
    "two cards": (lambda it: server(it)["resources"]["limits"].update({"huawei.com/Ascend910": "2"}), "the pod limits"),
    "another card": (
        lambda it: server(it)["resources"]["requests"].update({"huawei.com/npu": "1"}),
        "the pod requests",
    ),
    "a card in a sidecar": (
        lambda it: sidecar(it, resources={"limits": {"huawei.com/Ascend910": "1"}}),
        "the pod limits the cards",
    ),
    "no scheduler": (lambda it: spec(it).pop("schedulerName"), "the scheduler and its label"),
    "another label": (
        lambda it: it.pod["metadata"]["labels"].update({"ring-controller.atlas": "ascend-910"}),
        "the scheduler and its label",
    ),
    "a fixed card": (
        lambda it: server(it)["env"].append({"name": "ASCEND_VISIBLE_DEVICES", "value": "0"}),
        "container server sets ASCEND_VISIBLE_DEVICES",
    ),
    "all cards in a sidecar": (sidecar, "container sidecar has no card"),
    "a folder of the node": (
        lambda it: spec(it)["volumes"][0].update({"hostPath": {"path": "/etc"}}),
        "volumes ['tls'] are of the node",
    ),
    "a volume that nobody mounts": (lambda it: server(it)["volumeMounts"].pop(), "volumes ['tmp'] are not both"),
    "an unknown ConfigMap": (
        lambda it: next(each for each in it.of_kind("ConfigMap") if "identities.toml" in each["data"])[
            "metadata"
        ].update({"name": "other"}),
        "there are no ConfigMaps",
    ),
    "insecure beside TLS": (
        lambda it: server(it)["env"].append({"name": "ACLGRAD_INSECURE", "value": "true"}),
        "ACLGRAD_INSECURE comes with the component plaintext",
    ),
    "TLS without clients' certificates": (
        lambda it: server(it)["env"].remove(
            next(each for each in server(it)["env"] if each["name"] == "ACLGRAD_TLS_CLIENT_CA")
        ),
        "ACLGRAD_TLS_CLIENT_CA comes with the component mtls",
    ),
    "a selector of no pod": (
        lambda it: it.of_kind("Service")[0]["spec"]["selector"].update({"tier": "cards"}),
        "Service aclgrad selects",
    ),
    "a number of pods": (lambda it: it.deployment["spec"].update({"replicas": 2}), "`replicas` of the Deployment"),
    "another target": (lambda it: scaled(it)["scaleTargetRef"].update({"name": "other"}), "autoscaling is for other"),
    "no room to scale": (lambda it: scaled(it).update({"maxReplicaCount": 1}), "maxReplicaCount of autoscaling"),
    "a fast end of pods": (
        lambda it: spec(it).update({"terminationGracePeriodSeconds": 300}),
        "autoscaling removes a pod while another one drains",
    ),
    "the pods of another namespace": (
        lambda it: it.deployment["metadata"].update({"namespace": "other"}),
        "the query of autoscaling does not count the pods of the namespace other",
    ),
    "no CPU requested": (lambda it: server(it)["resources"]["requests"].pop("cpu"), "autoscaling measures a share"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_patch_of_an_overlay_breaks_is_found(change: str, example: Rendered) -> None:
    it = Rendered(example.components, copy.deepcopy(example.documents))
    breaks, problem = CHANGES[change]
    breaks(it)
    (said,) = {each for each in found(it) if each.startswith(problem)}
    assert ": " in said


def test_other_pods_of_an_overlay_are_left_alone(example: Rendered) -> None:
    labels = {"app.kubernetes.io/name": "proxy"}
    other = copy.deepcopy(example.deployment)
    other["metadata"] = {"name": "proxy", "labels": labels}
    other["spec"]["selector"] = {"matchLabels": labels}
    service = {"kind": "Service", "metadata": {"name": "proxy"}, "spec": {"selector": labels}}
    assert found(Rendered(example.components, [other, service, *example.documents])) == []


def test_a_driver_that_is_not_mounted_is_found(plain: Rendered) -> None:
    it = Rendered(plain.components, copy.deepcopy(plain.documents))
    spec(it)["volumes"] = [each for each in spec(it)["volumes"] if "hostPath" not in each]
    assert "the driver is not mounted: keep the volumes of ascend, or add docker-runtime after it" in found(it)


def test_a_pod_without_a_card_needs_nothing_of_the_node(plain: Rendered) -> None:
    it = Rendered(("host", "plaintext"), plain.documents)
    assert any(each.endswith("a pod without the component ascend needs none: remove them") for each in found(it))


def test_query_without_the_replacement_is_found(tmp_path: Path) -> None:
    folder = write_overlay(tmp_path / "mine", ("host", "plaintext", "monitoring", "autoscaling"))
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    del told["replacements"]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(told))
    (problem,) = found(render(folder))
    assert problem.startswith("the query of autoscaling does not count the pods of the namespace aclgrad: copy")
