"""Trials of what lacks elements, in memory that nobody wrote: `python -m tools.make_elements_table`."""
