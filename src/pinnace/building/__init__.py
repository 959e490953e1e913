"""From a file to an executable: opening, the cached build, another engine, other weights."""
