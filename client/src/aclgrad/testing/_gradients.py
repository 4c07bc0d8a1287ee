"""A test of somebody's own training step: are the gradients of the server right?"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aclgrad._client.sync.client import Client
from aclgrad.judge.findings.rows import Verdict

if TYPE_CHECKING:
    from aclgrad.torch import compare_backward


def assert_gradients_match(step: Callable[[], Any], client: Client) -> "compare_backward":
    """Runs a training step of PyTorch, which calls backward(), and compares its gradients with the server's.

    Raises AssertionError, with the table, if one is wrong, or if none could be compared. Returns the comparison.
    """
    # Tests without PyTorch use this package as well.
    from aclgrad.torch import compare_backward

    compared: compare_backward = compare_backward(client)
    with compared:
        step()
    if compared.failed:
        raise AssertionError(f"gradients of {compared.failed[0].origin.target} are wrong\n{compared}")
    if not any(row.verdict is Verdict.PASSED for row in compared.rows):
        raise AssertionError(f"no gradient was compared: the step calls no function that is served\n{compared}")
    return compared
