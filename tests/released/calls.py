"""Calls that the client of any release can make: `python calls.py ADDRESS` prints what became of each as JSON.

It is run by the interpreter of a release, which has nothing of these tests.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import aclgrad
from aclgrad import reference
from aclgrad.operators.cases import first_cases
from aclgrad.products import Product

LARGE = (1, 64, 768, 768)
"""Of float32: more than a message takes, so it goes in chunks."""


def gradients(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def outcome(call: Callable[[], bool]) -> str:
    """Returns `right`, `wrong`, or the error's type and text."""
    try:
        return "right" if call() else "wrong"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def is_right(client: Any, typed: Any) -> bool:
    inputs, name, attributes = typed.arrays(), typed.spec.name, typed.case.attributes
    found = gradients(client.execute(name, inputs, attributes))
    truths = gradients(reference.define(name, inputs, attributes))
    bound = typed.tolerance(Product.ATLAS_A2)
    return all(map(lambda a, b: np.allclose(a, b, bound.relative, bound.absolute), found, truths))


def large_is_right(client: Any) -> bool:
    """Each window of 3 x 3 cells has a gradient of 9, and each of its cells 1."""
    gradient = client.adaptive_avg_pool2d_backward(np.full((1, 64, 256, 256), 9, np.float32), LARGE)
    return gradient.shape == LARGE and bool((gradient == 1).all())


def batch_is_right(client: Any) -> bool:
    """A gradient of a padding adds up in the cell that was repeated."""
    batch = client.batch()
    for _ in range(3):
        batch.replication_pad1d_backward(np.ones((2, 5), np.float32), (2, 3), (1, 1))
    return all((gradient == [2, 1, 2]).all() for gradient in batch.run())


def main() -> None:
    with aclgrad.Client(sys.argv[1]) as client:
        status = client.server_status()
        served = [each.name for each in client.list_operators()]
        calls: dict[str, Callable[[], bool]] = {
            typed.spec.name: lambda typed=typed: is_right(client, typed)
            for typed in first_cases(Product(status.product))
        }
        others = {"chunks": lambda: large_is_right(client), "batch": lambda: batch_is_right(client)}
        outcomes = {name: outcome(call) for name, call in (calls | others).items()}
    print(json.dumps({"version": status.version, "served": served, "outcomes": outcomes}))


if __name__ == "__main__":
    main()
