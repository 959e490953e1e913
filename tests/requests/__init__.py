"""Fuzzed requests: `python -m tests.requests --count 250000 --engine onnxruntime --seed 1`.

Case number N of a seed is a model with free dimensions (`models`), and requests that are wrong in some way:
sizes that do not fit, extreme integers, NaN (`mutate`). Each answer must depend on its request alone: inputs
lie at pages that nobody may read (`memory`), each request is asked twice with other numbers in fresh memory,
and with another request between (`trial`). Cases run in child processes (`batch`): an engine may end the
process.
"""
