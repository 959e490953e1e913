"""Primitives of MindSpore Lite, a module for each family."""
