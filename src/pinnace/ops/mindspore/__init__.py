"""Primitives of MindSpore, a module for each family."""
