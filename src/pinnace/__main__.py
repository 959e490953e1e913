"""`python -m pinnace`: the command line where the `pinnace` script is not on the PATH."""

from pinnace.cli import main

main()
