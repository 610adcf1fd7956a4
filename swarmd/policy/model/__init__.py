"""Models: names, folders, downloads, devices, tokenisers."""
