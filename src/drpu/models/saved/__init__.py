"""scikit-learn estimators in files: which ones, how they are written, and how they are read safely."""
