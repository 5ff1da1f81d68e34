"""Whole models: a vision encoder and a decoder layer, timed with plain and with quantised Linear layers.

vit and llama are the models, swapping and unfused what is done to them, measuring the clock; encoder and decoder put these together, pages
shows what was measured. The models have random weights.
"""
