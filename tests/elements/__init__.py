"""Trials of what lacks elements, in memory that nobody wrote (tools/tables/make_elements_table.py)."""
