"""Confidence limits of priors."""
