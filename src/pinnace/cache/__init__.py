"""The compile cache: models that were built before are mapped, not built again.

`key` names a model and a target by content; `entry` is a compiled model on disk; `store` is the folder of all
entries.
"""
