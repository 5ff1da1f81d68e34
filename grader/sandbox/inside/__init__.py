"""What runs inside the sandbox, beside the student's code. Standard library, Triton and NumPy only.

This folder and `grader.interpreter` are mounted alone: nothing else of the grader can be seen from inside.
"""
