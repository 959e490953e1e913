"""onnxruntime on the processor.

`engine` is the door; `session` runs, and with `loading` is all that a model from the compile cache needs;
`compiling` makes sessions of graphs, `keeping` what the cache keeps of them, `exchanging` sessions with other
weights; `kernels` knows which operators there are, `divisors` which attributes end the process.
"""
