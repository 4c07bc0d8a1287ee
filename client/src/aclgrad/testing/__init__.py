"""A server for your own tests. It runs in this process, on loopback, and needs no native code.

    import aclgrad
    import aclgrad.testing

    with aclgrad.testing.serve() as server, aclgrad.Client(server.target) as client:
        server.fail(aclgrad.ServerBusyError("full", retry_after_s=0.01), times=2)
        gradient = client.adaptive_avg_pool2d_backward(grad_output, (8, 16, 16))  # the third attempt succeeds
        assert server.calls == ["adaptive_avg_pool2d_backward"]

It computes with the operators' float64 definitions and rounds the gradient to its dtype. It serves single calls,
batches, programs and chunked calls, and lists operators. It is slow, so send small tensors. It does not accept shared
memory.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aclgrad._client.sync.client import Client
from aclgrad.testing._server import TestServer, serve

if TYPE_CHECKING:
    from aclgrad.torch import compare_backward

__all__ = ["TestServer", "assert_gradients_match", "serve"]


def assert_gradients_match(step: Callable[[], Any], client: Client) -> "compare_backward":
    """Runs a training step of PyTorch, which calls backward(), and compares its gradients with the server's.

    Raises AssertionError, with the table, if one is wrong, or if none could be compared. Returns the comparison.
    """
    # Tests without PyTorch, and without the judge, use this package as well.
    from aclgrad.judge.findings.rows import Verdict
    from aclgrad.torch import compare_backward

    compared: compare_backward = compare_backward(client)
    with compared:
        step()
    if compared.failed:
        raise AssertionError(f"gradients of {compared.failed[0].origin.target} are wrong\n{compared}")
    if not any(row.verdict is Verdict.PASSED for row in compared.rows):
        raise AssertionError(f"no gradient was compared: the step calls no function that is served\n{compared}")
    return compared
