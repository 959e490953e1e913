"""Building executables: opening files, the cached build, fallback to another engine, exchange of weights."""
