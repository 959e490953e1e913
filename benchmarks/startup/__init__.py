"""Time and memory until a model answers, and what the compile cache saves of them."""
