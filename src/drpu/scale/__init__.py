"""Batches, streams and clusters: sums of counts."""
