"""onnxruntime on the processor.

`engine` is the door; `session` runs, and is all that a model from the compile cache needs; `compiling`
makes sessions of graphs, and `keeping` what the cache keeps of them; `kernels` knows which operators there
are.
"""
