"""Weights that stay in their files."""
