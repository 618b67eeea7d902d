"""Loaders, the synthetic city, splits and features."""
