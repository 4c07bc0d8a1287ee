"""The check knows the forms of Kubernetes's own kinds, and of what KEDA makes of a ScaledObject."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.overlays.__main__ import main
from tools.overlays.rendering import EXAMPLE, Document, render, write_overlay
from tools.overlays.schemas import misfits


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return render(EXAMPLE).documents


def of(documents: list[Document], kind: str) -> Any:
    return next(each for each in documents if each["kind"] == kind)


CHANGES: dict[str, tuple[Callable[[list[Document]], object], str]] = {
    "an unknown field": (lambda them: of(them, "Deployment")["spec"].update(minReady=1), "refuses Deployment aclgrad"),
    "a wrong type": (lambda them: of(them, "Service")["spec"].update(ports="50051"), "refuses Service aclgrad"),
    "an old version": (lambda them: of(them, "Deployment").update(apiVersion="apps/v1beta1"), "it has no Deployment"),
    "an unknown behavior": (
        lambda them: of(them, "ScaledObject")["spec"]["advanced"]["horizontalPodAutoscalerConfig"]["behavior"].update(
            scaleSideways={}
        ),
        "refuses ScaledObject aclgrad: spec.behavior",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_kubernetes_refuses_is_found_for_the_oldest_and_the_newest(change: str, documents: list[Document]) -> None:
    changed = copy.deepcopy(documents)
    breaks, problem = CHANGES[change]
    breaks(changed)
    oldest, newest = misfits(changed)
    assert oldest.startswith("Kubernetes 1.30 ")
    assert not newest.startswith("Kubernetes 1.30 ")
    assert problem in oldest
    assert problem in newest


def test_program_names_the_overlay_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = write_overlay(tmp_path / "good", ("host", "plaintext"))
    refused = write_overlay(tmp_path / "refused", ("host", "plaintext", "volcano"))
    broken = write_overlay(tmp_path / "broken", ("host", "plaintext"))
    text = (broken / "kustomization.yaml").read_text()
    (broken / "kustomization.yaml").write_text(text + "commonLabels: {team: a}\n")
    assert main([str(EXAMPLE), str(good)]) == 0
    assert capsys.readouterr() == ("", "")
    assert main([str(each) for each in (good, refused, broken, tmp_path / "missing")]) == 1
    lines = capsys.readouterr().err
    assert "refused: component volcano needs ascend, it chooses a card: add ascend before volcano" in lines
    assert "missing: there is no kustomization.yaml: name the folder of an overlay" in lines
    assert "broken: " in lines
    assert "'commonLabels' is deprecated" in lines
    assert "good: " not in lines
