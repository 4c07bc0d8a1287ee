"""The check of overlays refuses components that do not go together."""

from pathlib import Path

import pytest
import yaml

from tools.overlays.components import COMPONENTS, FOLDER, ORDER, components_of, refusals, sets
from tools.overlays.rendering import RenderError, render, write_overlay

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


def test_kubectl_itself_refuses_a_310p_without_a_card(tmp_path: Path) -> None:
    with pytest.raises(RenderError, match="Ascend910"):
        render(write_overlay(tmp_path / "before", ("310P", "ascend", "plaintext")))


def test_an_overlay_of_an_overlay_has_its_components(tmp_path: Path) -> None:
    folder = write_overlay(tmp_path / "mine", ("volcano",))
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    told["resources"] = [str(FOLDER / "overlays/ascend")]
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(told))
    assert components_of(folder) == ("ascend", "plaintext", "volcano")
