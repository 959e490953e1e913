"""Compilation of MindSpore programs to ONNX graphs that engines can run."""
