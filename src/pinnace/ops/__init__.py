"""What primitives mean: lowerings to ONNX, and the table in which they are found."""
