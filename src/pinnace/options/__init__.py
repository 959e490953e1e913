"""What users may ask for: contexts, settings, and the table of all options."""
