"""From a command line to finished cells: what is to be run, in which order, within which budget."""
