"""Tests mirror the rooms of swarmd."""
