"""Operators taken apart into others of ONNX, where no primitive computes them (see `rules`)."""
