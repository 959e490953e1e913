"""One model over several ranks."""
