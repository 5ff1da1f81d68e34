"""Grader for Triton kernel labs: reads, builds, runs, checks and scores what a student wrote."""

__version__ = "0.3.0"
