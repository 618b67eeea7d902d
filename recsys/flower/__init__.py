"""Flower apps that train the models of ``recsys``: what they add is transport, no cryptography."""
