"""Max pooling by definition: the forward operator's argmax, both layouts of its mask, and the gradient in float64."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Pool:
    """The attributes as the operator takes them, and the shape of self."""

    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...] = ()
    padding: tuple[int, ...] = (0,)
    ceil_mode: bool = False

    @property
    def output(self) -> tuple[int, int]:
        sizes = []
        for size, kernel, stride, padding in zip(self.shape[-2:], *self._pairs(), strict=True):
            room = size + 2 * padding - kernel
            count = (-(-room // stride) if self.ceil_mode else room // stride) + 1
            if self.ceil_mode and (count - 1) * stride >= size + padding:
                count -= 1
            sizes.append(count)
        return sizes[0], sizes[1]

    @property
    def grad_shape(self) -> tuple[int, ...]:
        return (*self.shape[:-2], *self.output)

    @property
    def indices_shape(self) -> tuple[int, ...]:
        """As CANN documents it."""
        kernel, _, _ = self._pairs()
        groups = -(-self.output[0] * self.output[1] // 16) + 1
        return (*self.shape[:-2], kernel[0] * kernel[1], groups * 32)

    def windows(self, row: int, column: int) -> list[tuple[int, int, int]]:
        """The cells of a window that lie on the input: (number within the window, y, x)."""
        kernel, stride, padding = self._pairs()
        top, left = row * stride[0] - padding[0], column * stride[1] - padding[1]
        cells = [(dy * kernel[1] + dx, top + dy, left + dx) for dy in range(kernel[0]) for dx in range(kernel[1])]
        height, width = self.shape[-2:]
        return [(number, y, x) for number, y, x in cells if 0 <= y < height and 0 <= x < width]

    def _pairs(self) -> tuple[tuple[int, ...], ...]:
        given = (self.kernel, self.stride or self.kernel, self.padding)
        return tuple(values if len(values) == 2 else values * 2 for values in given)


def choose(pool: Pool, seed: int = 0) -> np.ndarray:
    """A random argmax: for each window one of its cells, as its number within the window."""
    generator = np.random.default_rng(seed)
    chosen = np.zeros(pool.grad_shape, np.int64)
    for row, column in np.ndindex(*pool.output):
        numbers = [number for number, _, _ in pool.windows(row, column)]
        chosen[..., row, column] = generator.choice(numbers, pool.shape[:-2])
    return chosen


def positions(pool: Pool, chosen: np.ndarray) -> np.ndarray:
    """The positions y * W + x of the chosen cells."""
    result = np.zeros(pool.grad_shape, np.int32)
    for row, column in np.ndindex(*pool.output):
        for number, y, x in pool.windows(row, column):
            result[..., row, column] += np.where(chosen[..., row, column] == number, y * pool.shape[-1] + x, 0)
    return result


def argmax_layout(pool: Pool, chosen: np.ndarray) -> np.ndarray:
    """INT32 positions at the start of the documented buffer; what follows is never read."""
    buffer = np.full(pool.indices_shape, 0x55, np.int8)
    prefix = positions(pool, chosen).tobytes()
    buffer.reshape(-1)[: len(prefix)] = np.frombuffer(prefix, np.int8)
    return buffer


def mask_layout(pool: Pool, chosen: np.ndarray) -> np.ndarray:
    """One bit for each cell of each window, 16 channels to a word; the padding words are all ones, to be ignored."""
    *batch, channels, rows, columns = chosen.shape
    batches = batch[0] if batch else 1
    cells = pool.indices_shape[-2]
    words = np.full((batches, -(-channels // 16), cells, pool.indices_shape[-1] // 2), 0xFFFF, np.uint16)
    words[..., : rows * columns] = 0
    flat = chosen.reshape(batches, channels, rows * columns)
    for n, c, p in np.ndindex(*flat.shape):
        words[n, c // 16, flat[n, c, p], p] |= 1 << (c % 16)
    buffer = np.full(pool.indices_shape, 0x55, np.int8)
    buffer.reshape(-1)[: words.nbytes] = np.frombuffer(words.tobytes(), np.int8)
    return buffer


def gradient(pool: Pool, grad: np.ndarray, argmax: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The definition for an argmax of positions, and the same with absolute values."""
    height, width = pool.shape[-2:]
    wide = grad.astype(np.float64).reshape(-1, grad.shape[-2] * grad.shape[-1])
    result = np.zeros((len(wide), height * width))
    scale = np.zeros_like(result)
    for plane, cells in enumerate(argmax.reshape(len(wide), -1)):
        np.add.at(result[plane], cells, wide[plane])
        np.add.at(scale[plane], cells, abs(wide[plane]))
    return result.reshape(pool.shape), scale.reshape(pool.shape)
