"""Options: contexts, settings, and the table of all options."""
