"""The forms that Kubernetes accepts, of its own kinds. It does not know those of other projects."""

import json
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from typing import Final

from kubernetes_validate import SchemaNotFoundError, ValidationError, latest_version, validate

from tools.overlays.rendering import Document

OLDEST: Final = "1.30"
"""The manifests are for this Kubernetes or later."""


def misfits(documents: Iterable[Document]) -> Iterator[str]:
    """Yields what the oldest or the newest Kubernetes would refuse."""
    for each, version in product(documents, (OLDEST, latest_version())):
        problem = _misfit(json.dumps(autoscaler(each) if each["kind"] == "ScaledObject" else each), version)
        if problem:
            yield f"Kubernetes {version} refuses {each['kind']} {each['metadata']['name']}: {problem}"


def autoscaler(scaled: Document) -> Document:
    """Returns the HorizontalPodAutoscaler that KEDA makes, without its metrics: so Kubernetes judges the rest."""
    spec = scaled["spec"]
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": scaled["metadata"],
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", **spec["scaleTargetRef"]},
            "minReplicas": spec["minReplicaCount"],
            "maxReplicas": spec["maxReplicaCount"],
            "behavior": spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"],
        },
    }


@cache
def _misfit(document: str, version: str) -> str | None:
    """Returns what is wrong with a document; overlays have most of theirs in common."""
    content = json.loads(document)
    try:
        validate(content, version, strict=True)
    except ValidationError as error:
        return f"{'.'.join(map(str, error.path))}: {error.message}"
    except SchemaNotFoundError:
        group = content["apiVersion"].rpartition("/")[0]
        return None if "." in group else f"it has no {content['kind']} of {content['apiVersion']}"
    return None
