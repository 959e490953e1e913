"""Time of a prediction: of engines, rules, checks, and of the way to the engine."""
