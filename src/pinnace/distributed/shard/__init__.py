"""`pinnace shard`: a model that is cut into one for each rank."""
