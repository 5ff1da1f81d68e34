"""Triton's interpreter made to agree with Triton's compiler, and what watches a launch on it: memory, races, promises, a recording.

It knows no lab, no student and no grader: standard library, NumPy and Triton only.
"""
