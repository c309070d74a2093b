"""Classifiers on disk: what is needed to predict and adapt, and no training rows."""
