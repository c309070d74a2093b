"""Learners of density ratios, the functions that they return, and cross-fitting."""
