"""Calls of threshold_backward."""

from aclgrad.operators._families.elementwise.samples import away_from, elementwise_samples

SAMPLES = elementwise_samples(
    "threshold_backward",
    attributes={"relu": {"threshold": 0.0}, "above": {"threshold": 0.3}, "below": {"threshold": -1.5}},
    value=away_from(0.0, 0.3, -1.5),
)
