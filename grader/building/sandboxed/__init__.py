"""What building and running ask of a sandbox, done inside it. Standard library, Triton, NumPy and `grader.interpreter` only.

This folder, `grader.interpreter` and `grader.sandbox.inside` are mounted alone: nothing else of the grader can be seen from inside.
"""
