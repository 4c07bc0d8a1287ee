"""A server for your own tests. It runs in this process, on loopback, and needs no native code.

    import aclgrad
    import aclgrad.testing

    with aclgrad.testing.serve() as server, aclgrad.Client(server.target) as client:
        server.fail(aclgrad.ServerBusyError("full", retry_after_s=0.01), times=2)
        gradient = client.adaptive_avg_pool2d_backward(grad_output, (8, 16, 16))  # the third attempt succeeds
        assert server.calls == ["adaptive_avg_pool2d_backward"]

It computes with the operators' float64 definitions and rounds the gradient to its dtype. It serves single calls,
batches and chunked calls, and lists operators. It is slow, so send small tensors. It does not accept shared memory.
"""

from aclgrad.testing._gradients import assert_gradients_match
from aclgrad.testing._server import TestServer, serve

__all__ = ["TestServer", "assert_gradients_match", "serve"]
