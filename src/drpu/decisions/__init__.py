"""Thresholds, costs, budgets and expected performance."""
