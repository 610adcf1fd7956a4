"""Files: written whole or not at all, read within a bound, kept from others; and where a node's lie."""
