"""Density-ratio models, one kind per module, all with ``fit_ratio`` and ``ratio``."""
