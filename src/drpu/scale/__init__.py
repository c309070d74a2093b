"""Counting, scoring and fitting in batches, in streams and on clusters."""
