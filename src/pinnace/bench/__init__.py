"""What `pinnace bench` measures with: times, throughput, profiles, accuracy, plots."""
