"""The public classes that run models."""
