"""The folder that `pinnace exec` puts on the path; its `mindspore_lite` is Pinnace."""
