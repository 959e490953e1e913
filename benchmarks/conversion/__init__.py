"""Conversion and quantization: their time and memory, and what becomes of the models."""
