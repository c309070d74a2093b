"""Classifiers that scikit-learn's tools can drive."""
