"""One small kernel for everything that triton.language documents; see table.py."""
