"""The node: its parts, its children, its life, and what it answers. Begin with life.py."""
