"""Distributed execution: each rank runs one part of a model, and ranks communicate by collectives."""
