"""Random kill -9, over and over, on real nodes."""
