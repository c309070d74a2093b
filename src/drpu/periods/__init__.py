"""What moved between two samples of rows: tests, readings, backtests, arrived labels, groups."""
