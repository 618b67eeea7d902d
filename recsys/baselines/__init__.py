"""Baselines of the papers' tables: one file for each system."""
