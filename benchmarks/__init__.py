"""Speed and accuracy, beside what a user would take instead. ``python -m benchmarks`` runs all of it."""
