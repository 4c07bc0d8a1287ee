"""What deploy/README.md says of components holds, and its set-up of a cluster can be rendered."""

import re
import textwrap
from pathlib import Path

import yaml

from aclgrad_server.access.identities import read_identities
from tools.overlays.__main__ import problems
from tools.overlays.components import FOLDER, NEEDS, ORDER, components_of
from tools.overlays.rendering import EXAMPLE, render, write_overlay

README = (FOLDER.parent / "README.md").read_text()
SET_UP = README.partition("## A real cluster's set-up from them\n")[2]
ROWS = dict(re.findall(r"^\| `([\w-]+)`(?: or)? \| (.*) \|$", README, re.MULTILINE))


def test_table_has_the_components_and_what_they_need() -> None:
    assert ROWS.keys() & set(ORDER) == set(ORDER)
    for component, (needed, _) in NEEDS.items():
        assert f"`{needed}`" in ROWS[component]


def test_set_up_of_a_cluster_renders_with_what_is_yours(tmp_path: Path) -> None:
    (block,) = re.findall(r"^ *```yaml\n(.*?)^ *```$", SET_UP, re.MULTILINE | re.DOTALL)
    folder = write_overlay(tmp_path / "mine", components_of(EXAMPLE))
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    added = yaml.safe_load(textwrap.dedent(block))
    assert not told.keys() & added.keys()
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(told | added))
    assert problems(folder) == []
    it = render(folder)
    documents = {(each["kind"], each["metadata"]["name"]): each for each in it.documents}
    assert it.containers[0]["image"] == "registry.example/aclgrad:ascend"
    identities = tmp_path / "identities.toml"
    identities.write_text(documents["ConfigMap", "aclgrad-identities"]["data"]["identities.toml"])
    assert len(read_identities(identities).of_sans([("dns", b"trainer.aclgrad-client")])) == 1
    assert documents["ScaledObject", "aclgrad"]["spec"]["maxReplicaCount"] == 16
    for kind in ("ServiceMonitor", "PrometheusRule"):
        assert documents[kind, "aclgrad"]["metadata"]["labels"]["release"] == "prometheus"


def test_the_query_follows_the_namespace(tmp_path: Path) -> None:
    folder = write_overlay(tmp_path / "mine", components_of(EXAMPLE))
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(told | {"namespace": "team-a"}))
    assert problems(folder) == []
    (scaled,) = render(folder).of_kind("ScaledObject")
    assert 'aclgrad_utilization_ratio{namespace="team-a"}' in scaled["spec"]["triggers"][0]["metadata"]["query"]
