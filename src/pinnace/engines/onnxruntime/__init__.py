"""onnxruntime on the processor.

`engine` is the door; `session` runs, and with `loading` is all that a model from the compile cache needs;
`compiling` makes sessions of graphs, `keeping` what the cache keeps of them, `exchanging` sessions with other
weights; `kernels` knows which operators there are, `divisors` which attributes end the process. `rules` and
`legal` write what it refuses, or computes slowly, otherwise.
"""

import os

# Since 1.29 the import starts a thread that sends reports to Microsoft, and a forked child that ends by
# itself waits for that thread, which it does not have, forever. onnxruntime's Privacy.md names the variable.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
