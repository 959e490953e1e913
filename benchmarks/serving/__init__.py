"""Models under load: services, devices, clusters, updates of weights, C++ clients."""
