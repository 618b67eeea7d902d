"""Experiments of many trainings: comparisons and sweeps, over processes, resumable."""
