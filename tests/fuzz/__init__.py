"""Damaged models by the hundred thousand: `python -m tests.fuzz --files 200000`.

Trial number N takes a file of the corpus, damages it and does with it what opening a model does: read it,
lower it, look at its weights, and for one in ten also build the engine's session. The number says all:
which file, which damage, whether the engine is built. One in fifty is a file that asks for much work with
few bytes (`amplify`). It must end in a graph or in one `PinnaceError`, within bounds of time and memory.
Trials run in child processes, so that a crash is seen and has a number.
"""
