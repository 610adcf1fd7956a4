"""`python -m swarmd` is `swarmd`."""

from swarmd.cli.main import main

main()
