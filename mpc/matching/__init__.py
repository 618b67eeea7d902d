"""Private matching through a third party: who holds a common item, and nothing else."""
