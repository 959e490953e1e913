"""Properties of this machine: cores, CPU features, accelerators, simulated devices."""
