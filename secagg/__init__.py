"""Secure aggregation by pairwise one-time pads."""
