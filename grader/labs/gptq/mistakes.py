"""GPTQ: for now nothing."""
MISTAKES = ()
