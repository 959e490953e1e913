"""Tensors of users, and their checks against the ports of a model."""
