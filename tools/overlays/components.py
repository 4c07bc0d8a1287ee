"""The components of deploy/kubernetes, and which of them go together."""

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from pathlib import Path
from typing import Final

import yaml

FOLDER: Final = Path(__file__).resolve().parents[2] / "deploy/kubernetes"
COMPONENTS: Final = FOLDER / "components"
ORDER: Final = ("host", "ascend", "plaintext", "mtls", "docker-runtime", "volcano", "310P", "monitoring", "autoscaling")
"""All of them, in an order that is right for any choice."""
CHOICES: Final = (
    (("host", "ascend"), "what a pod computes on"),
    (("plaintext", "mtls"), "how clients connect"),
)
"""An overlay has one of each."""
NEEDS: Final = {
    "310P": ("ascend", "it changes the kind of card"),
    "docker-runtime": ("ascend", "a pod without a card needs no driver"),
    "volcano": ("ascend", "it chooses a card"),
    "autoscaling": ("monitoring", "its query reads metrics that monitoring collects"),
}
AFTER: Final = {
    "310P": {"ascend": "which asks for an Ascend910", "volcano": "which labels the pod ascend-910b"},
    "docker-runtime": {"ascend": "which mounts the driver of the node"},
}
"""Components that change what another one brings, so the other one comes before."""


def refusals(components: Sequence[str]) -> Iterator[str]:
    """Yields why the components do not go together in this order, and what to do."""
    for name in dict.fromkeys(components):
        if components.count(name) > 1:
            yield f"component {name} is listed more than once: list it once"
    for options, what in CHOICES:
        chosen = [name for name in options if name in components]
        if not chosen:
            yield f"no component says {what}: add {' or '.join(options)}"
        elif len(chosen) > 1:
            yield f"components {' and '.join(chosen)} exclude each other, both say {what}: remove one of them"
    for name, (needed, why) in NEEDS.items():
        if name in components and needed not in components:
            yield f"component {name} needs {needed}, {why}: add {needed} before {name}, or remove {name}"
    for name, others in AFTER.items():
        for other, brings in others.items():
            if {name, other} <= set(components) and components.index(name) < components.index(other):
                yield f"component {name} comes before {other}, {brings}: list {name} after {other}"


def sets() -> Iterator[tuple[str, ...]]:
    """Yields every set of components, those that do not go together too."""
    return chain.from_iterable(combinations(ORDER, count) for count in range(len(ORDER) + 1))


def components_of(overlay: Path) -> tuple[str, ...]:
    """Returns the components in the order in which kustomize takes them: those of other overlays first."""
    file = overlay / "kustomization.yaml"
    told = yaml.safe_load(file.read_text()) if file.is_file() else {}
    resources = ((overlay / each).resolve() for each in told.get("resources", ()))
    nested = chain.from_iterable(components_of(each) for each in resources if each.is_dir())
    own = ((overlay / each).resolve() for each in told.get("components", ()))
    return (*nested, *(each.name for each in own if each.parent == COMPONENTS))
