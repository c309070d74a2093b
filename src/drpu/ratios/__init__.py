"""Learners of density ratios, which return functions, and cross-fitting."""
