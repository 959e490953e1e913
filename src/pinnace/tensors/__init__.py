"""Tensors as users hold them, and the ports of a model that take them."""
