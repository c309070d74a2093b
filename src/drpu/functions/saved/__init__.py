"""Safe storage of scikit-learn estimators: the allowed types, writing, and reading with checks."""
