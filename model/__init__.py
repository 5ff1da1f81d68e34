"""A small language model to quantise: its text, its training, ways of quantising it, and what each costs in perplexity."""
