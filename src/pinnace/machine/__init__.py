"""Properties of this machine: cores, processor features, accelerators, simulated devices."""
