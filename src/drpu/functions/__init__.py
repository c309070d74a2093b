"""Fitted functions of rows as plain data: trees, features with weights, networks, averages and folds."""
