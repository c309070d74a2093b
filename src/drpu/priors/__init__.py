"""Priors from counts of scores: readings, limits and calibration."""
