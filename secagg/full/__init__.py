"""Secure aggregation that survives drop-outs: the full protocol of Bonawitz et al. (CCS 2017)."""
