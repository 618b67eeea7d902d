"""Recommender systems on the protocols of mpc, ldp and secagg."""
