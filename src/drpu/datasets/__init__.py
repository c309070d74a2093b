"""Data sets: Gaussian classes, and PU samples made from labelled data."""

from drpu.datasets.sampling import PUSample, draw_at_prior, make_pu
from drpu.datasets.toys import GaussianClasses, PUData, make_gaussian_pu

__all__ = ["GaussianClasses", "PUData", "PUSample", "draw_at_prior", "make_gaussian_pu", "make_pu"]
