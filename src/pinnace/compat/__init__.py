"""The folder that `pinnace exec` puts on the path: it holds a `mindspore_lite` that is Pinnace."""
