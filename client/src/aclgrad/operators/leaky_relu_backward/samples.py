"""Calls of leaky_relu_backward."""

from aclgrad.operators._families.elementwise.samples import away_from, elementwise_samples

SAMPLES = elementwise_samples(
    "leaky_relu_backward",
    attributes={
        "slope": {"negative_slope": 0.125},
        "negative_slope": {"negative_slope": -0.5},
        "of_the_result": {"negative_slope": 0.25, "self_is_result": True},
    },
    value=away_from(0.0),
)
