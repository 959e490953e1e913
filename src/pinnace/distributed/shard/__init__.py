"""`pinnace shard`: partition of a model into one file for each rank."""
