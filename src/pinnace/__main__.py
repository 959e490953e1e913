"""`python -m pinnace`: the command line without the `pinnace` script."""

from pinnace.cli import main

main()
