"""A data directory of each released version, kept as it was, which this version must go on from."""
