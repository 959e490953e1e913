"""Side-by-side measurements: `python -m benchmarks NAME`. They print ratios, and assert nothing."""
