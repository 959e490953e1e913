"""Weights that stay where they lie."""
