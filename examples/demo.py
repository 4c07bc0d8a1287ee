"""Starts a server on the host library, calls each operator remotely, checks each gradient against its definition."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

import aclgrad
from aclgrad import reference
from aclgrad.operators.cases import TypedCase, arrays_of, first_cases, returned_arrays
from aclgrad.products import Product

ROW = "{:<32} {:<10} {:<22} {:>9} {:>12}  {}"


@contextmanager
def running_server() -> Iterator[str]:
    """Yields the address of a server that lives as long as the block."""
    command = [sys.executable, "-m", "aclgrad_server", "--backend", "host"]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-level", "warning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = next((line for line in process.stdout if line.startswith("ready: ")), None)
            if ready is None:
                raise SystemExit("the server did not start")
            yield ready.split()[1]
        finally:
            process.terminate()


def check(client: aclgrad.Client, typed: TypedCase) -> bool:
    """Makes the call, prints a row for each gradient, and says whether all are right."""
    inputs = typed.arrays()
    start = time.perf_counter()
    gradients = returned_arrays(client.execute(typed.spec.name, inputs, typed.case.attributes))
    elapsed_ms = (time.perf_counter() - start) * 1e3
    truths = arrays_of(reference.define(typed.spec.name, inputs, typed.case.attributes))
    tolerance = typed.tolerance(Product.ATLAS_A2)
    all_right = True
    for name, gradient, truth in zip(typed.outputs, gradients, truths, strict=True):
        errors, limits = np.abs(gradient - truth), tolerance.of(name).limit(truth)
        right = gradient.shape == truth.shape and bool((errors <= limits).all())
        error = float(errors.max())
        told = (str(gradient.shape), f"{elapsed_ms:.2f} ms", f"{error:.1e}", "ok" if right else "WRONG")
        print(ROW.format(typed.spec.name, typed.dtype, *told))
        all_right &= right
    return all_right


def main() -> int:
    with running_server() as address, aclgrad.Client(address) as client:
        status = client.server_status()
        print(f"{address}: {status.devices[0].soc_name} ({status.product}) of {status.library}")
        print(ROW.format("operator", "dtype", "gradient", "call", "max error", "against its definition"))
        results = [check(client, typed) for typed in first_cases(Product(status.product))]
    return 0 if all(results) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
