"""From a MindSpore program to an ONNX graph that an engine can run."""
