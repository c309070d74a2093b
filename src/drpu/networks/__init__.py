"""Density ratios and scores from neural networks: learners, and the torch training loop."""
