"""Density ratios: one backend a file, all with ``fit_ratio`` and ``ratio``."""
