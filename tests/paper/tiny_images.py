"""Tiny images and jobs for tests of the paper's runner."""

from dataclasses import replace

import numpy as np

from paper.configs import DATASETS, recipe
from paper.run import Job
from paper.splits import Images

KEYS = {"experiment", "labels", "flavour", "dataset", "method", "trial", "seconds", "tests", "settings"}
KEYS |= {"seed", "versions"}


def fake_images(n_train=700, n_test=400, shape=(1, 28, 28), seed=0) -> Images:
    """Images whose class is the brightness of a corner."""
    rng = np.random.default_rng(seed)

    def draw(n):
        classes = np.arange(n) % 10
        rows = rng.random((n, *shape), dtype=np.float32) * 0.5
        rows[:, :, :4, :4] += (classes[:, None, None, None] % 2 == 0) * 0.5
        return rows, classes.astype(np.uint8)

    return Images(*draw(n_train), *draw(n_test))


def small(name="mnist"):
    return replace(
        DATASETS[name], n_unlabeled=(500, 200), n_positive=(50, 30), n_test=100, epochs=2, network="mlp"
    )


def job(flavour="as-run", trials=(0, 1), **changes) -> Job:
    data = small()
    made = recipe(flavour, "drpu", data)
    options = made.options | {"batch_size": 100, "epochs": 2}
    return Job("benchmark", data, replace(made, options=options | changes), trials)
