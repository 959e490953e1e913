"""Measurements of `pinnace bench`: times, throughput, profiles, accuracy, plots."""
