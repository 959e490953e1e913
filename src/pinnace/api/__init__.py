"""The public nouns: what users make and call."""
