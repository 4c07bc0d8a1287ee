"""Bounded caches of functions that a bridge to a framework made for a client."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final

MOST: Final = 512
"""Enough for all shapes of a model's layers. JAX keeps a compiled program of each function."""


class BridgeFunctions:
    """Functions by key; threads may share them.

    The `MOST` recently used stay; others are made again when needed.
    """

    def __init__(self) -> None:
        # Finalizers of a function may call back here.
        self._lock = threading.RLock()
        self._functions: OrderedDict[Hashable, Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._functions)

    def get(self, key: Hashable) -> Any:
        """Returns the function, or None."""
        with self._lock:
            if key in self._functions:
                self._functions.move_to_end(key)
            return self._functions.get(key)

    def keep(self, key: Hashable, function: Any) -> Any:
        """Returns the cached function: if several threads made one, the first one's."""
        with self._lock:
            kept = self._functions.setdefault(key, function)
            while len(self._functions) > MOST:
                self._functions.popitem(last=False)
            return kept

    def clear(self) -> None:
        with self._lock:
            self._functions.clear()
