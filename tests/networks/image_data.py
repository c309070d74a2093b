"""Artificial images, for tests of networks."""

import numpy as np


def pictures(n: int, positive, seed: int = 0, shape=(16, 16)) -> np.ndarray:
    """Noise of eight bits, with a bright square in the positive images."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 120, (n, *shape)).astype(np.uint8)
    images[np.broadcast_to(positive, n), ..., 4:9, 4:9] += 100
    return images
