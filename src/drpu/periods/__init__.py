"""What moved between two samples of rows: tests, readings, backtests, labels that arrive, and groups."""
