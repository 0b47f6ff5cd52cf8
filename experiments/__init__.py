"""Experiments: measured claims, one command each; not part of the installed package."""
