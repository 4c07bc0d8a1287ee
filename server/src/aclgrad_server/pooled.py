"""Handlers that run on a thread pool of their own, so that they answer while every worker is busy."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class Pooled:
    """A method that grpc runs on the pool that it carries."""

    def __init__(self, behaviour: Callable[..., Any], pool: ThreadPoolExecutor) -> None:
        self._behaviour = behaviour
        self.experimental_thread_pool = pool

    def __call__(self, *arguments: Any) -> Any:
        return self._behaviour(*arguments)
