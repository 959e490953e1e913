"""Operators of Ascend in nodes `Custom`."""
