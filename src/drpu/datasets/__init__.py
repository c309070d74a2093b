"""Data sets: Gaussian classes, PU samples made from labelled data, and image sets."""

from drpu.datasets.loaders import ImageSet, load_image_set
from drpu.datasets.sampling import PUSample, draw_at_prior, make_pu
from drpu.datasets.toys import GaussianClasses, PUData, make_gaussian_pu

__all__ = [
    "GaussianClasses",
    "ImageSet",
    "PUData",
    "PUSample",
    "draw_at_prior",
    "load_image_set",
    "make_gaussian_pu",
    "make_pu",
]
