"""What a bridge to a framework made for a client, and the bound on it."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final

MOST: Final = 512
"""More functions than the layers of a model have shapes. JAX keeps what it compiled for each."""


class BridgeFunctions:
    """Functions by what makes each another than the others; threads may share them.

    The `MOST` that were used last stay; an older one is made again if it is needed again.
    """

    def __init__(self) -> None:
        # What ends with a function may come back to them.
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
        """Returns the function that is kept: of several threads that made one, the first one's."""
        with self._lock:
            kept = self._functions.setdefault(key, function)
            while len(self._functions) > MOST:
                self._functions.popitem(last=False)
            return kept

    def clear(self) -> None:
        with self._lock:
            self._functions.clear()
