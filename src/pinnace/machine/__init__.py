"""What this machine has: cores, processor features, accelerators, those that are simulated."""
