"""Lowerings of primitives to ONNX, and the table in which they are found."""
