"""The warm-ups of the opening, in its order: add, masks, strides, a transpose, row scales, int4 words, BSR, a tiled product. No points."""

from grader.exercises.opening import few_bits, products, tiles

STEPS = (*tiles.STEPS, *few_bits.STEPS, *products.STEPS)
