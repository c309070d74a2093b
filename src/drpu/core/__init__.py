"""Mathematics on NumPy arrays, without state, files or estimators."""
