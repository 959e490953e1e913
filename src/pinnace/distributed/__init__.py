"""One model over several ranks: processes that each run a part, and meet in collectives."""
