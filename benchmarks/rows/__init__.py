"""The ratio rows, one file for each package; every file holds a tuple ``ROWS``."""
