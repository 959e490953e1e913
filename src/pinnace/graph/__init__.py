"""ONNX graphs, as no dialect and no engine owns them: writing, walking and inferring."""
