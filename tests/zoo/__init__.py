"""Whole networks: exported and run by MindSpore, then run by Pinnace, side by side.

    python -m tests.zoo [--oracle PYTHON] [--work FOLDER] [PATTERN ...]

Outside of CI: MindSpore and the networks' files take gigabytes, and an hour. `catalog` names the networks,
`networks` holds those that are written here, `oracle` and `ours` are the two sides, a process each for every
network, and `page` makes docs/conformance.md of what they said.
"""
