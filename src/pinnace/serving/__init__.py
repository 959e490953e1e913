"""Queues and the places where executables run: threads, device processes, Ray actors."""
