"""Benchmarks of speed and accuracy, with comparisons. ``python -m benchmarks`` runs all of them."""
