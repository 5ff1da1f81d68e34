"""The steps of the notebooks: what is right passes, and what is often done wrong is named."""

from __future__ import annotations

import ast
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from grader.authoring.notebooks import SOURCE, instructor_notebook
from grader.exercises import exercises, slips_of, steps_of
from grader.labs import all_labs
from grader.model import KernelSource, Refusal, SourceLine
from grader.notebook import NotYet, check_cells, step_values, step_words
from grader.notebook.harness import StepAnswer, check_executed, problem_of
from grader.notebook.step_words import deviation, differing
from grader.reading import read_executed, read_step
from grader.running.cpu import InterpretOptions

ROOT = Path(__file__).parents[3]
LABS = list(all_labs())
NOTEBOOKS = list(exercises())

# notebook, step, what stands in the solution, what stands there instead, a piece of the answer
WRONG = [
    ("w8a8", "load", "rows[:, None] * stride_row", "rows[:, None] * 64", "which is between two rows"),
    ("w8a8", "load", "* stride_column", "", "its tile moves by"),
    ("w8a8", "load", "return tl.load(", "tile = tl.load(", "returns nothing"),
    ("w8a8", "load", ", None] * stride_row", ", None] * stride_rows", "stride_rows"),
    ("w8a8", "load", "mask=inside, other=0", "mask=(rows < row_count)[:, None]", "has 53 columns"),
    ("w8a8", "quantise", " + 0.5)", ")", "rounded down"),
    ("w8a8", "quantise", "tl.minimum(tl.maximum(nearest, -128.0), 127.0)", "nearest", "not clamped"),
    ("w8a8", "quantise", "-128.0", "-127.0", "line 6: "),
    ("w8a8", "quantise", ".to(tl.int8)", "", "returns fp32 [16, 64], expected int8 [16, 64]; end it with .to(tl.int8)"),
    ("w8a8", "quantise", "scale[:, None]", "scale[None, :]", "scale[None, :] is fp32 [1, 16]"),
    ("w8a8", "quantise", "scale[:, None]", "scale[:, None].to(tl.float16)", "the scale rounded to fp16"),
    ("w8a8", "dot", "tl.dot(q, w, acc, ", "tl.dot(q, w, ", "acc was not added"),
    ("w8a8", "dot", "tl.dot(q, w, acc, out_dtype=tl.int32)",
     "(acc + tl.dot(q.to(tl.float16), w.to(tl.float16))).to(tl.int32)", "a sum made in fp32"),
    ("w8a8", "loop", "acc = multiply_tiles(quantise_tile(x, input_scale), w, acc)",
     "acc = multiply_tiles(quantise_tile(x, input_scale), w, tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32))",
     "the last tile along K alone"),
    ("w8a8", "loop", "    return acc\n    ### END", "        return acc\n    ### END", "this loop has a `return` in its body"),
    ("w8a8", "loop", "dtype=tl.int32)", "dtype=tl.float32)", "the accumulator `acc` is fp32, but the product of int8 operands is int32"),
    ("w8a8", "loop", "range(0, K, ", "range(0, K // BLOCK_K * BLOCK_K, ", "without the last tile along K"),
    ("w8a8", "loop", "load_tile(qweight_ptr, depth,", "load_tile(qweight_ptr, tl.arange(0, BLOCK_K),", "the first of the weight"),
    ("w8a8", "epilogue", "* weight_scale[None, :]", "", "without the scales of the columns"),
    ("w8a8", "epilogue", "acc.to(tl.float32)", "acc.to(tl.float16)", "inf in fp16"),
    ("w8a8", "epilogue", " * weight_scale[None, :]", ").to(tl.float16) * (weight_scale[None, :].to(tl.float16)",
     "rounded to fp16 on the way"),
    ("w8a8", "store", "(rows < M)[:, None] & (columns < N)[None, :]", "(rows < M)[:, None]", "has 27 columns"),
    ("w4a16", "load", "first_k // 8 + ", "", "begin at word"),
    ("w4a16", "load", "(words < K // 8)[:, None]", "(words < K)[:, None]", "which has 13 rows"),
    ("w4a16", "unpack", "(words[:, None, :] << shifts) >> 28", "(words[:, None, :] >> (28 - shifts)) & 0xF", "unsigned"),
    ("w4a16", "unpack", "28 - 4 *", "4 *", "reverse order"),
    ("w4a16", "unpack", "<< shifts) >> 28", ">> shifts) & 0xF", "line 6: 1952 of 2048 elements are wrong"),
    ("w4a16", "unpack", ">> 28", ">> 4", "not down far enough"),
    ("w4a16", "loop", "load_words(qweight_ptr, k,", "load_words(qweight_ptr, k // 8,", "load_words takes k itself"),
    ("w4a16", "loop", "load_words(qweight_ptr, k,", "load_words(qweight_ptr, k + tl.arange(0, BLOCK_K),", "`first_k` is a vector"),
    ("w4a16", "epilogue", "acc * scales", "acc / scales", "divided"),
    ("w4a16", "epilogue", "(acc * scales.to(tl.float32)[None, :]).to(tl.float16)", "acc.to(tl.float16) * scales[None, :]",
     "inf in fp16"),
    ("w8a16", "convert", "- 1152.0", "- 1024.0", "128 too large"),
    ("w8a16", "convert", "bits.to(tl.float16, bitcast=True) - 1152.0", "(q.to(tl.int32) & 0xFF).to(tl.float16)", "unsigned"),
    ("w8a16", "dot", "tl.dot(x, to_half(q), acc)", "tl.dot(x, to_half(q))", "acc was not added"),
    ("w8a16", "dot", "tl.dot(x, to_half(q), acc)", "tl.dot(x, to_half(q), acc).to(tl.float16)", "leave the .to(tl.float16) out"),
    ("w8a16", "dot", "tl.dot(x, to_half(q), acc)", "tl.dot(x, to_half(q), acc).to(tl.float16).to(tl.float32)", "rounded to fp16 before"),
    ("w8a16", "loop", "K, BLOCK_K)", "K, 16)", "the next begins 16 after it began"),
    ("w8a16", "loop", "stride_xm, stride_xk)", "stride_xm, 1)", "two rows (its strides are 328 and 2); the address is wrong"),
    ("w8a8", "loop", "stride_xm, stride_xk)", "stride_xm, 1)", "two rows (its strides are 328 and 2); the address is wrong"),
    ("w4a16", "loop", "stride_xm, stride_xk)", "stride_xm, 1)", "two rows (its strides are 328 and 2); the address is wrong"),
    ("gptq", "loop", "N, stride_sg, stride_sn)", "N, N, 1)",
     "element 24 of scales (5 x 24), which is between two rows (its strides are 32 and 1)"),
    ("w8a16", "loop", "load_tile(qweight_ptr, depth,", "load_tile(qweight_ptr, tl.arange(0, BLOCK_K),", "first of the weight"),
    ("w8a16", "loop", "range(0, K, ", "range(0, K // BLOCK_K * BLOCK_K, ", "without the last tile along K"),
    ("w8a16", "epilogue", "(acc * scales.to(tl.float32)[None, :]).to(tl.float16)", "acc.to(tl.float16) * scales[None, :]",
     "inf in fp16"),
    ("w8a16", "epilogue", "acc * scales", "acc + scales", "with the scales added"),
    ("w8a16", "one", "x.to(tl.float32)[:, None] * q.to(tl.float32)", "(x[:, None] * q.to(tl.float16)).to(tl.float32)", "rounded to fp16"),
    ("gptq", "unpack", "4 * tl.arange(0, 8)", "28 - 4 * tl.arange(0, 8)", "reverse order"),
    ("gptq", "unpack", "4 * tl.arange(0, 8)", "tl.arange(0, 8)", "begins at bit 4 * i"),
    ("gptq", "zeros", "& 0xF) + 1", "& 0xF)", "stored less one"),
    ("gptq", "zeros", "// 8", "// 4", "columns from N // 8 on (8 elements share a word: element i is in word i // 8)"),
    ("gptq", "zeros", "// group_size", "// 32", "those of groups of 32; group_size is 16 here"),
    ("gptq", "zeros", "depth // group_size", "depth // 128", "as if groups had 128 or more; group_size is 16 here"),
    ("gptq", "zeros", "depth // group_size", "(depth - tl.min(depth, axis=0)) // group_size", "for k counted from 0"),
    ("gptq", "zeros", "& 0xF) + 1", "& 0xF) + 1 & 0xF", "which became 0"),
    ("gptq", "weight", "* scales", "", "not scaled"),
    ("gptq", "loop", "range(0, K, ", "range(0, K // BLOCK_K * BLOCK_K, ", "without the last tile along K"),
    ("dds", "find", "block_row + 1)", "block_row + 1) - 1", "one too small"),
    ("dds", "find", "block_row + 1)", "block_row)", "the start twice"),
    ("dds", "loop", "tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)", "0", "`acc` is one number, but the product is [16, 32]"),
    ("dds", "dot", "tl.dot(x, block, acc)", "tl.dot(x, block, acc).to(tl.float16)", "leave the .to(tl.float16) out"),
    ("dds", "find", ", tl.load(crow_indices_ptr + block_row + 1)", "",
     "does not fit its call in the check, `first, last = find_blocks(crow_ptr, block_row)`: one value"),
    ("dds", "gather", "tl.load(col_indices_ptr + b)", "0", "was not used"),
    ("dds", "gather", "(rows < M)[:, None]", "(rows < M)[:, None] & (columns < K)[None, :]", "load_x_tile has no such parameter"),
    ("dds", "gather", "(rows < M)[:, None]", "(rows <= M)[:, None]", "row 13 of x, which has 13 rows"),
    ("dds", "dot", "r[None, :] * BLOCK + r[:, None]", "r[:, None] * BLOCK + r[None, :]", "transpose it"),
    ("dds", "loop", "range(first, last)", "range(first, last - 1)", "without the last block"),
    ("dds", "loop", "range(first, last)", "range(find_blocks(crow_indices_ptr, block_row))", "first, last = f(...)"),
    ("dds", "loop", "range(first, last)", "range(*find_blocks(crow_indices_ptr, block_row))", "first, last = f(...)"),
    ("dds", "store", ", mask=(rows < M)[:, None]", "", "row 13 of Y, which has 13 rows"),
    ("dds", "store", "mask=(rows < M)[:, None]", "mask=(rows < M)[:, None], other=0.0", "a store writes nothing"),
    ("opening", "add", "tl.program_id(0) * BLOCK + ", "", "32 of 48 elements of out were never written"),
    ("opening", "add", "tl.arange(0, BLOCK)", "tl.arange(1, BLOCK + 1)", "tl.arange begins at 0"),
    ("opening", "mask", "x + y, mask=at < n)", "x + y, mask=at < n - 1)", "up to the last element but one"),
    ("opening", "mask", "y = tl.load(y_ptr + at, mask=at < n, other=0.0)", "y = tl.load(y_ptr + at)", "element 41 of y, which has 41"),
    ("opening", "mask", "x + y, mask=at < n)", "x + y)", "element 41 of out, which has 41"),
    ("opening", "tile", "rows[:, None] * stride_row + columns[None, :]", "rows[:, None] * stride_column + columns[None, :]",
     "its tile moves by 2 and 2, x's strides are 72 and 2"),
    ("opening", "tile", "rows[:, None] * stride_row + columns[None, :] * stride_column",
     "columns[:, None] * stride_column + rows[None, :] * stride_row",
     "returns fp16 [32, 16], expected fp16 [16, 32]; its axes are swapped"),
    ("opening", "tile", "rows[:, None] * stride_row + columns[None, :]", "rows * stride_row + columns", "make a tile of them"),
    ("opening", "masks", "(columns < column_count)[None, :]", "(columns < column_count)[:, None]", "int1 [32, 1]"),
    ("opening", "transpose", "columns[None, :] * M + rows[:, None]", "columns[None, :] + rows[:, None] * M", "were never written"),
    ("opening", "transpose", "tile, mask=inside", "tile", "row 25 of y, which has 25 rows"),
    ("opening", "scales", "tl.where(largest > 0, largest / 127, 1.0)", "largest / 127", "0 for a row of zeros"),
    ("opening", "scales", "tl.abs(tile.to(tl.float32))", "tile.to(tl.float32)", "not the largest magnitude"),
    ("opening", "scales", "tl.maximum(largest, tl.max(tl.abs(tile.to(tl.float32)), axis=1))",
     "tl.max(tl.abs(tile.to(tl.float32)), axis=1)", "the last tile along K alone"),
    ("opening", "scales", "axis=1)", "axis=0)", "check the axis"),
    ("opening", "pack", "(q & 0xF)", "q", "keep four bits"),
    ("opening", "pack", "4 * tl.arange(0, 8)", "28 - 4 * tl.arange(0, 8)", "reverse order"),
    ("opening", "unpack", "(words[:, None] << (28 - 4 * tl.arange(0, 8))[None, :]) >> 28",
     "(words[:, None] >> (4 * tl.arange(0, 8))[None, :]) & 0xF", "unsigned"),
    ("opening", "bsr", "row + 1)", "row + 1) - 1", "without the last block"),
    ("opening", "bsr", "inner[:, None] * BLOCK + inner[None, :]", "tl.arange(0, BLOCK * BLOCK)", "to load a tile, give it two ranges"),
    ("opening", "bsr", "tl.load(col_indices_ptr + b) * BLOCK + inner", "inner", "the first elements of x"),
    ("opening", "bsr", "tl.load(col_indices_ptr + b) * BLOCK", "tl.load(col_indices_ptr + b)", "it counts blocks"),
    ("opening", "bsr", "inner[:, None] * BLOCK + inner[None, :]", "inner[None, :] * BLOCK + inner[:, None]", "transposed"),
    ("opening", "product", "K, N, 1, K)", "K, N, N, 1)", "its strides are 1 and K"),
    ("opening", "product", "range(0, K,", "range(0, K - BLOCK_K,", "without the last tile"),
    ("opening", "product", "range(0, K,", "range(BLOCK_K, K,", "without the first tile"),
    ("opening", "product", "pid // tiles_n * BLOCK_M", "pid % tiles_n * BLOCK_M", "were never written"),
    ("opening", "product", "acc = tl.dot(x, w, acc)", "acc = tl.dot(x, w)", "the last tile along K alone"),
    ("opening", "product", "acc.to(tl.float16), mask=inside", "acc.to(tl.float16)", "row 21 of y, which has 21 rows"),
    ("opening", "add", "tl.program_id(0) * BLOCK + ", "", "written for the first program's elements alone"),
    ("opening", "tile", "return tl.load(ptr + rows[:, None] * stride_row + columns[None, :] * stride_column)",
     "return ptr + rows[:, None] * stride_row + columns[None, :] * stride_column", "these are the addresses"),
    ("opening", "tile", "tl.load(ptr + rows[:, None] * stride_row + columns[None, :] * stride_column)",
     "ptr[rows[:, None], columns[None, :]]", "`ptr` is a pointer"),
    ("opening", "tile", "rows[:, None] * stride_row + columns[None, :] * stride_column",
     "rows[:, None] * stride_column + columns[None, :] * stride_row", "the strides of the other axis"),
    ("opening", "masks", "rows[:, None] * stride_row + columns[None, :] * stride_column",
     "rows[:, None] * stride_column + columns[None, :] * stride_row", "the strides of the other axis"),
    ("opening", "masks", ", other=0", "", "what the mask leaves out is undefined"),
    ("opening", "transpose", "(rows < M)[:, None] & (columns < N)[None, :]", "(rows < N)[:, None] & (columns < M)[None, :]",
     "writes column 21 of y, which has 21 columns: it lands in y[1, 0]"),
    ("opening", "transpose", "columns[None, :] * M + rows[:, None]", "rows[:, None] * N + columns[None, :]", "not transposed"),
    ("opening", "transpose", "M, N, stride_row, stride_column)\n", "stride_row, stride_column, M, N)\n",
     "check what load_tile is passed"),
    ("opening", "scales", "tl.abs(tile.to(tl.float32)), axis=1", "tl.abs(tile.to(tl.float32))", "all rows of the tile"),
    ("opening", "scales", "largest / 127, 1.0", "1.0, largest / 127", "1 for all rows but those of zeros"),
    ("opening", "scales", "largest / 127", "largest // 127", "`//` divides whole numbers only"),
    ("opening", "scales", "tl.zeros((BLOCK_M,), dtype=tl.float32)", "0.0", "tl.zeros((BLOCK_M,), dtype=tl.float32)"),
    ("opening", "pack", "(q & 0xF) << (4 * tl.arange(0, 8))", "q & 0xF << (4 * tl.arange(0, 8))", "put q & 0xF in brackets"),
    ("opening", "bsr", "y += tl.sum", "y = tl.sum", "the last block of each row alone"),
    ("opening", "product", "acc = tl.dot(x, w, acc)", "tl.dot(x, w, acc)", "zero everywhere"),
    ("opening", "product", "acc = tl.dot(x, w, acc)", "acc += tl.dot(x, w, acc)", "write acc = and not acc +="),
    ("opening", "product", "depth = k + tl.arange", "depth = tl.arange", "again and again"),
    ("opening", "product", "tl.cdiv(N, BLOCK_N)", "N // BLOCK_N", "without its last column of tiles"),
    ("opening", "product", "pid % tiles_n", "tl.program_id(1)", "the first column of tiles alone"),
    ("opening", "product", "columns, K, N, 1, K)", "columns, K, N, K, 1)", "load_tile reads past the last element of w"),
    ("w8a8", "load", ", other=0", "", "what the mask leaves out is undefined"),
    ("w8a8", "dot", "return tl.dot", "return acc + tl.dot", "acc counted twice"),
    ("w8a8", "loop", "acc = multiply_tiles", "acc += multiply_tiles", "write acc = and not acc +="),
    ("w8a8", "loop", "columns, K, N, stride_wk", "columns, N, K, stride_wk", "load_tile reads column 27 of w"),
    ("w8a8", "store", "rows[:, None] * stride_ym + columns[None, :] * stride_yn",
     "rows[:, None] * stride_yn + columns[None, :] * stride_ym", "the tile's rows run along Y's columns"),
    ("w4a16", "unpack", "[None, :, None]\n    q = (words[:, None, :]", "[None, None, :]\n    q = (words[:, :, None]",
     "between words and columns"),
    ("w4a16", "loop", "K, N, stride_wk", "K // 8, N, stride_wk", "load_words takes K itself"),
    ("w4a16", "dot", "tl.dot(x, q, acc)", "tl.dot(x, q, acc, out_dtype=tl.float16)", "out_dtype asks for float16"),
    ("w4a16", "loop", "acc = multiply_tiles", "acc += multiply_tiles", "write acc = and not acc +="),
    ("w8a16", "loop", "acc = multiply_tiles", "acc += multiply_tiles", "write acc = and not acc +="),
    ("gptq", "loop", "acc = tl.dot", "acc += tl.dot", "write acc = and not acc +="),
    ("dds", "gather", ", other=0.0", "", "what the mask leaves out is undefined"),
    ("dds", "loop", "range(first, last)", "range(last)", "with the blocks of the rows above"),
    ("opening", "add", "tl.arange(0, BLOCK)", "range(0, BLOCK)", "Next: write tl.arange(0, SIZE)"),
    ("opening", "add", "+ tl.load(y_ptr", "* tl.load(y_ptr", "line 6: 48 of 48 elements are wrong"),
    ("opening", "transpose", "x_ptr, rows, columns,", "x_ptr, columns, rows,", "read with its axes exchanged"),
    ("opening", "scales", "for k in range(0, K, BLOCK_K):", "k = 0\n    while k < K:",
     "line 13: `while k < K` never ends: nothing in its body changes k or K; advance the counter at the end of its body: k += ..."),
    ("opening", "scales", "(BLOCK_M,)", "(BLOCK_M)", "one size with a comma: ((BLOCK_M,), dtype=tl.float32)"),
    ("opening", "pack", "<<", ">>", "shifted down, out of the word"),
    ("opening", "bsr", "tl.load(crow_indices_ptr + row + 1)", "tl.load(crow_indices_ptr + row) + 1", "+ 1 goes inside tl.load"),
    ("opening", "bsr", "inner[:, None] * BLOCK + inner[None, :]", "inner", "the first row of a block in the place of every row"),
    ("opening", "product", "acc = tl.dot(x, w, acc)", "acc += x * w", "for their matrix product write tl.dot(x, w)"),
    ("opening", "product", "acc = tl.dot(x, w, acc)", "acc = tl.dot(w, x, acc)", "exchange the operands: tl.dot(x, w, acc)"),
    ("opening", "add", "tl.program_id(0) * BLOCK", "tl.program_id * BLOCK", "`tl.program_id` is a function that is not called"),
    ("opening", "add", "tl.store(out_ptr + at, ", "return (out_ptr, ", "add has no tl.store, so out was never written"),
    ("opening", "mask", "at < n", "at[at < n]", "`at` is a tile: only [:, None] and [None, :]"),
    ("opening", "transpose", "x_ptr, rows, columns, M, N, stride_row", "x_ptr, rows, columns, 99, 99, stride_row",
     "check what load_tile is passed"),
    ("opening", "scales", "tl.maximum(largest,", "tl.max(largest,", "Next: write tl.maximum(largest, tl.max("),
    ("opening", "product", "        acc = tl.dot", "    acc = tl.dot", "or indent this line where it belongs inside"),
    ("opening", "bsr", "    tl.store(", "        tl.store(", "store once, after the loop"),
    ("dds", "gather", "tl.load(col_indices_ptr + b)", "tl.load(col_indices_ptr + b * BLOCK)",
     "line 5: tl.load reads element 128 of col, which has 6 (0 to 5)"),
    ("w8a8", "loop", "K, N, stride_wk, stride_wn", "K, N, 1, K", "its tile moves by 1 and 160, w's strides are 1 and 176"),
    ("w4a16", "loop", "stride_wk, stride_wn, BLOCK_K", "N, 1, BLOCK_K", "its tile moves by 27 and 1"),
    ("w8a8", "epilogue", "acc.to(tl.float32) * input_scale[:, None] * weight_scale[None, :]",
     "acc.to(tl.float32) * tl.dot(input_scale[:, None], weight_scale[None, :])",
     "Next: write input_scale[:, None] * weight_scale[None, :]"),
    ("dds", "loop", "acc = multiply_block", "acc += multiply_block", "write acc = and not acc +="),
    ("gptq", "weight", "(q - zeros).to(tl.float16) * scales", "q.to(tl.float16) * scales - zeros", "scaled in part"),
    ("gptq", "unpack", "& 0xF", "& 0x7", "three bits"),
    ("gptq", "zeros", "(depth < K)[:, None] & ", "", "make it false for rows from K // group_size on"),
    ("gptq", "zeros", "(4 * (columns % 8))", "(columns % 8)", "begins at bit 4 * (n % 8)"),
    ("gptq", "zeros", "(4 * (columns % 8))[None, :]", "(4 * (depth % 8))[:, None]", "columns says which nibble"),
    ("gptq", "zeros", "((words >> (4 * (columns % 8))[None, :]) & 0xF)", "((words << (28 - 4 * (columns % 8))[None, :]) >> 28)",
     "signed: a stored 15 became -1"),
    ("gptq", "zeros", "// group_size", "// K", "those of group 0 throughout"),
    ("gptq", "weight", "(q - zeros)", "(q - zeros + 1)", "one too small"),
    ("gptq", "weight", "(q - zeros).to(tl.float16) * scales", "q - zeros * scales", "the scale multiplies q, too"),
    ("gptq", "weight", "(q - zeros).to(tl.float16) * scales", "((q - zeros) * scales.to(tl.int32)).to(tl.float16)",
     "scales are below 1, and 0 as integers"),
    ("gptq", "weight", "(q - zeros)", "(q.to(tl.uint8) - zeros.to(tl.uint8))", "unsigned: q - zeros is below 0"),
    ("gptq", "loop", "range(0, K, BLOCK_K)", "range(0, K)", "line 10: "),
    ("gptq", "loop", "range(0, K, BLOCK_K)", "range(0, K)", "the loop ran 160 iterations"),
    ("gptq", "loop", "range(0, K, BLOCK_K)", "range(0, tl.cdiv(K, BLOCK_K))", "the loop ran 3 iterations"),
    ("gptq", "loop", "range(0, K, BLOCK_K)", "range(0, K, group_size)", "a tile may hold several groups"),
    ("gptq", "loop", "depth = k + ", "depth = ", "made with the first tile of x and the first groups"),
    ("gptq", "loop", "k // 8 + tl.arange", "tl.arange", "the first words in every iteration"),
    ("gptq", "loop", "k // 8 + tl.arange", "k + tl.arange", "words from row k of qweight on"),
    ("gptq", "loop", "load_tile(scales_ptr, depth // group_size", "load_tile(scales_ptr, k // group_size + tl.arange(0, BLOCK_K)",
     "from its tile's first group on"),
    ("gptq", "loop", "load_zeros(zeros_ptr, depth", "load_zeros(zeros_ptr, tl.arange(0, BLOCK_K)", "takes depth, which begins at k"),
    ("gptq", "loop", "load_zeros(zeros_ptr, depth", "load_zeros(zeros_ptr, k", "a tile's first group for all of the tile"),
    ("gptq", "loop", "group_size, K, N, stride_zg", "group_size, K // group_size, N, stride_zg", "load_zeros takes K itself"),
    ("gptq", "loop", "group_size, K, N, stride_zg", "group_size, K, N // 8, stride_zg", "load_zeros takes N itself"),
    ("gptq", "loop", "zeros, scales), acc)", "scales, zeros), acc)", "in each other's place"),
    ("gptq", "loop", "make_weights(unpack_words(words), zeros, scales)", "unpack_words(words).to(tl.float16)", "the product with q alone"),
    ("gptq", "loop", "return acc", "return acc.to(tl.float16)", "leave the .to(tl.float16) out"),
    ("w8a16", "convert", "tl.int16", "tl.int32", "convert to 16 bits first, such as .to(tl.int16)"),
    ("w8a16", "loop", "k + tl.arange", "tl.arange", "line 11: "),
    ("w8a16", "convert", "^ 0x6480", "| 0x6480", "| sets the sign bit, and ^ flips it"),
    ("w8a16", "dot", "tl.dot(x, to_half(q), acc)", "tl.dot(x.to(tl.int8), q, acc)", "integers were multiplied"),
    ("w8a16", "dot", "to_half(q), acc", "to_half, acc", "`to_half` is a function, and was not called"),
    ("w8a16", "dot", "tl.dot(x,", "tl.dot(to_half(x),", "an x without fractions"),
    ("w8a16", "loop", "range(0, K, BLOCK_K)", "range(0, K)", "made of K tiles along K that overlap"),
    ("w8a16", "loop", "range(0, K, BLOCK_K)", "range(0, K // BLOCK_K)", "made of K // BLOCK_K tiles along K that overlap"),
    ("w8a16", "one", "[:, None] * q", "[:, None] + q", "the sum of x + q"),
    ("w8a16", "one", "tl.sum(x", "tl.max(x", "the largest product"),
    ("w8a16", "one", "x.to(tl.float32)[:, None] * q.to(tl.float32), axis=0)", "x[:, None] * to_half(q), axis=0)",
     "make the operands fp32 before they are multiplied"),
    ("w8a16", "one", "x.to(tl.float32)[:, None] * q.to(tl.float32), axis=0)", "x[:, None] * to_half(q), axis=0).to(tl.float32)",
     "a sum in fp16"),
    ("w8a16", "one", "tl.sum(x.to(tl.float32)[:, None] * q.to(tl.float32), axis=0)",
     "tl.sum(x.to(tl.float32), axis=0) * tl.sum(q.to(tl.float32), axis=0)", "multiply first, then sum"),
]  # fmt: skip
SWAPPED = (
    "rows[:, None] * stride_row + columns[None, :] * stride_column",
    "columns[:, None] * stride_column + rows[None, :] * stride_row",
)


def solution_cells(lab_id: str) -> list[str]:
    notebook = instructor_notebook(ROOT / SOURCE / f"{lab_id}.py", ROOT)
    return ["", *(cell.source for cell in notebook.cells if cell.cell_type == "code")]


@pytest.fixture(scope="module")
def options() -> InterpretOptions:
    return InterpretOptions(1, case_seconds=20.0)


def answer(notebook: str, name: str, cells: list[str], options: InterpretOptions) -> StepAnswer | Refusal:
    return check_executed(steps_of(notebook), name, cells, options, notebook)


def text_of(found: StepAnswer | Refusal) -> str:
    assert isinstance(found, Refusal) or not found.ok
    return found.message if isinstance(found, Refusal) else "\n".join(found.sentences)


def edited(notebook: str, name: str, right: str, wrong: str) -> list[str]:
    """The solved notebook's cells with a mistake in one step."""
    cells = solution_cells(notebook)
    at = next(i for i, cell in enumerate(cells) if f"def {steps_of(notebook)[name].function}(" in cell)
    assert right in cells[at]
    cells[at] = cells[at].replace(right, wrong)
    return cells


@pytest.mark.slow
@pytest.mark.parametrize(("notebook", "name", "right", "wrong", "said"), WRONG)
def test_a_wrong_step_is_explained(notebook, name, right, wrong, said, options):
    assert said in text_of(answer(notebook, name, edited(notebook, name, right, wrong), options))


@pytest.mark.slow
def test_what_a_mask_leaves_out_may_be_undefined_where_nothing_depends_on_it(options):
    """The store's mask leaves the same lanes out."""
    cells = [cell.replace("mask=at < n, other=0.0", "mask=at < n") for cell in solution_cells("opening")]
    found = answer("opening", "mask", cells, options)
    assert isinstance(found, StepAnswer)
    assert found.ok, found.sentences


def test_a_line_of_a_docstring_is_not_the_one_to_look_at():
    """The only statement is, where a slip has no line of its own; and 127 stands in the docstring as well."""
    text = 'def scale(x):\n    """x / 127"""\n    y = x / 127\n    return y'
    places = tuple(SourceLine("cell", n) for n in range(1, 5))
    source = KernelSource("", "scale", None, text, places, Path("steps.ipynb"))
    assert step_words._place(source, "scale", r"127") == "cell line 3"
    alone = replace(source, module='def scale(x):\n    """x / 127"""\n    return x / 127\n', lines=places[:3])
    assert step_words._place(alone, "scale") == "cell line 3"
    assert step_words._place(source, "scale") == "cell line 1"


def told(notebook: str, name: str, y: torch.Tensor) -> list[str]:
    """What is said of a result of a step, after how much of it is wrong."""
    step = steps_of(notebook)[name]
    problem, expected = problem_of(step)
    source = KernelSource(
        notebook, step.function, None, f"def {step.function}():\n    tl.store()", (), Path("steps.ipynb")
    )
    return differing(step, source, deviation(step, problem, y, expected, written=True), expected)[1][1:]


def test_a_slip_is_all_of_the_result():
    """-7 alone is left unsigned here, so that "unsigned" would be no reason: -1 is right."""
    _, expected = problem_of(steps_of("opening")["unpack"])
    assert told("opening", "unpack", torch.where(expected == -7, expected + 16, expected)) == []
    assert "unsigned" in told("opening", "unpack", expected % 16)[0]


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_each_slip_is_told_as_itself(notebook):
    """What a slip gives is no right answer, and no other slip's: its own words are what a student reads."""
    for name in steps_of(notebook):
        for slip in slips_of(notebook, name):
            assert slip.what in told(notebook, name, slip.result)[0]


def test_inputs_are_the_same_bits_on_every_machine(monkeypatch):
    """The results of slips are stored: torch.randn gives other bits on a processor with other instructions."""
    monkeypatch.setattr(torch, "randn", None)
    monkeypatch.setattr(torch.Tensor, "normal_", None)
    for notebook in NOTEBOOKS:
        for step in steps_of(notebook).values():
            problem_of(step)


@pytest.mark.slow
def test_of_a_wrong_step_the_earlier_ones_come_first(options):
    """The loop of the notebook calls all that came before it."""
    for name, right, wrong, said in (
        ("quantise", "tl.maximum(nearest, -128.0)", "-nearest", "calls quantise_tile, and that is not right yet"),
        ("load", *SWAPPED, "calls load_tile, and that is not right yet"),
    ):
        assert said in text_of(answer("w8a8", "loop", edited("w8a8", name, right, wrong), options))
    cells = solution_cells("w8a8")
    cells.append("@triton.jit\ndef multiply_tiles(q, w, acc):\n    pass")
    assert "multiply_tiles is still the stub" in text_of(answer("w8a8", "loop", cells, options))
    cells = ["" if "def load_tile(" in cell else cell for cell in solution_cells("w8a8")]
    assert "Next: run the cell of the step `load`" in text_of(answer("w8a8", "loop", cells, options))


@pytest.mark.slow
def test_swapped_axes_are_told_with_their_shapes(options):
    cells = edited("w8a8", "load", SWAPPED[0], SWAPPED[1])
    cells = [cell.replace("(rows < row_count)[:, None] & (columns < column_count)[None, :]",
                          "(columns < column_count)[:, None] & (rows < row_count)[None, :]") for cell in cells]  # fmt: skip
    text = text_of(answer("w8a8", "load", cells, options))
    assert "load_tile returns fp16 [64, 16], expected fp16 [16, 64]; its axes are swapped" in text
    assert "the check line" not in text


@pytest.mark.slow
def test_a_loop_without_end_is_told_at_its_while_before_it_runs(options):
    cells = edited("w8a16", "loop", "for k in range(0, K, BLOCK_K):", "k = 0\n    while k < K:")
    text = text_of(answer("w8a16", "loop", cells, replace(options, case_seconds=4.0)))
    at = next(cell for cell in cells if "while k < K" in cell).split("\n").index("    while k < K:") + 1
    never = "`while k < K` never ends: nothing in its body changes k or K"
    assert f"line {at}: {never}; advance the counter at the end of its body: k += " in text, text


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_right_steps_pass_in_time(notebook, options):
    """Seconds of this process and of those it waits for; a warm sandbox takes a tenth of them."""
    cells = solution_cells(notebook)
    slowest = 0.0
    for name in steps_of(notebook):
        found = answer(notebook, name, cells, options)
        assert isinstance(found, StepAnswer), found
        assert found.ok, found.sentences
        began = time.perf_counter()
        answer(notebook, name, cells, options)
        slowest = max(slowest, time.perf_counter() - began)
    print(f"{notebook}: {slowest:.2f} s")
    assert slowest < 15.0, "1.5 s on a quiet machine, and this one may be crowded"


@pytest.mark.parametrize("lab_id", NOTEBOOKS)
def test_every_step_has_its_cells(lab_id):
    """A step in steps.py, its function in the notebook, its check after it, and in the same order."""
    notebook = instructor_notebook(ROOT / SOURCE / f"{lab_id}.py", ROOT)
    ids = [cell.metadata["nbgrader"]["grade_id"] for cell in notebook.cells if "nbgrader" in cell.metadata]
    expected = [f"{lab_id}_step_{name}{end}" for name in steps_of(lab_id) for end in ("", "_check")]
    assert [grade_id for grade_id in ids if "_step_" in grade_id] == expected
    for cell in notebook.cells:
        name = cell.get("metadata", {}).get("nbgrader", {}).get("grade_id", "").removeprefix(f"{lab_id}_step_")
        if name in steps_of(lab_id):
            assert f"def {steps_of(lab_id)[name].function}(" in cell.source


@pytest.mark.parametrize("lab_id", LABS)
def test_the_notebooks_kernel_is_the_solutions(lab_id):
    """Same statements, so the same points, whichever of the two is graded."""
    from grader.reading import read

    lab = all_labs()[lab_id]
    in_cells = read_executed(solution_cells(lab_id), lab)
    in_file = read(ROOT / "solutions" / f"{lab_id}.py", [lab]).labs[lab_id]
    assert isinstance(in_cells, KernelSource)
    assert isinstance(in_file, KernelSource)
    parts = [sorted(ast.dump(node) for node in ast.parse(source.module).body) for source in (in_cells, in_file)]
    imports = [[part for part in found if not part.startswith("Import")] for found in parts]
    assert imports[0] == imports[1]


IMPORTS = "import triton\nimport triton.language as tl"
KERNEL = (ROOT / "tests" / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")


def kernel_from(*cells: str) -> KernelSource | Refusal:
    return read_executed(["", *cells], all_labs()["w8a8"])


STEP_CELL = "@triton.jit\ndef quantise_tile(x, scale):\n    return x"


def test_a_cell_that_is_no_python_is_told_and_not_judged_by_its_last_run():
    step = steps_of("w8a8")["quantise"]
    found = read_step(["", IMPORTS, STEP_CELL, STEP_CELL.replace("return x", "return (x")], "w8a8", step)
    assert isinstance(found, Refusal)
    assert found.message.startswith("`quantise_tile` (step 2), line 3")
    mended = read_step(["", IMPORTS, STEP_CELL.replace("return x", "return (x"), STEP_CELL], "w8a8", step)
    assert isinstance(mended, KernelSource)
    broken = kernel_from(KERNEL, KERNEL.replace("tl.store(", "tl.store((", 1))
    assert isinstance(broken, Refusal)
    assert broken.message.startswith("`W8A8_MM`, line")


def test_a_kernel_that_calls_plain_python_is_told_at_the_call():
    plain = (
        "import torch\ndef ones(rows):\n    return torch.ones_like(rows)\ndef quantise(rows):\n    return ones(rows)"
    )
    step = steps_of("w8a8")["quantise"]
    found = read_step(["", IMPORTS, plain, STEP_CELL.replace("return x", "return quantise(x)")], "w8a8", step)
    assert isinstance(found, Refusal)
    assert (
        "`quantise_tile` (step 2), line 3: the kernel calls `quantise`, which is not under @triton.jit" in found.message
    )


def test_the_last_run_of_a_cell_counts():
    first = kernel_from(KERNEL.replace("127", "126"), KERNEL)
    assert isinstance(first, KernelSource)
    assert "126" not in first.module
    assert str(first.lines[-1]).startswith("`W8A8_MM`, line")
    assert first.lines[-1].place == "cell [2]"


def test_a_value_that_was_run_again_stands_before_its_kernel():
    tuned = KERNEL.replace("@triton.autotune(\n", "@triton.autotune(\n", 1)
    start, end = tuned.index("configs=[") + len("configs="), tuned.index("],", tuned.index("configs=[")) + 1
    configs, kernel = tuned[start:end], tuned[:start] + "CONFIGS" + tuned[end:]
    found = kernel_from(
        IMPORTS, f"CONFIGS = {configs}", kernel, "SIZE = 32", f"CONFIGS = {configs.replace('64', 'SIZE', 1)}"
    )
    assert isinstance(found, KernelSource)
    assert found.module.count("CONFIGS = ") == 1
    assert found.module.index("SIZE = 32") < found.module.index("CONFIGS = ") < found.module.index("def W8A8_MM")


def test_appending_goes_with_its_list():
    cells = ["C = [1]", "C.append(2)", "D = C", "C = [3]", "C.append(4)"]
    from grader.reading.executed_cells import latest
    from grader.reading.files import executed_cells
    from grader.reading.selection import statements

    kept = [ast.unparse(statement.node) for statement in latest(statements(executed_cells(["", *cells])))]
    assert kept == ["C = [3]", "C.append(4)", "D = C"]


def test_a_stub_and_nothing_are_told_apart():
    stub = KERNEL[: KERNEL.index("    pid = ")] + "    pass\n"
    for cells, said in (((stub,), "still the stub (cell [1] line"), ((), "no cell that was run defines W8A8_MM")):
        found = kernel_from(*cells)
        assert isinstance(found, Refusal)
        assert found.status == "not_attempted"
        assert said in found.message


def test_a_step_may_not_leave_triton():
    cells = solution_cells("w8a8")
    cells.append("@triton.jit\ndef load_tile(ptr, rows, columns, a, b):\n    return torch.zeros(2)\n")
    found = read_step(cells, "w8a8", steps_of("w8a8")["load"])
    assert isinstance(found, Refusal)
    assert "torch" in found.message


@pytest.mark.slow
def test_a_cell_that_needs_an_earlier_step_says_so_before_it_runs(monkeypatch):
    """The opening's row_sums is given, and calls the student's load_tile."""
    cells = solution_cells("opening")
    monkeypatch.setattr(check_cells, "inputs", lambda: cells)
    monkeypatch.setattr(step_values, "inputs", lambda: cells)
    check_cells.needs("opening", "masks")
    at = next(i for i, cell in enumerate(cells) if "def load_tile(" in cell)
    right = cells[at]
    for wrong, said in (
        (right.partition('"""')[0] + "pass", "load_tile is still the stub"),
        (right.replace("& (columns < column_count)[None, :]", ""), "column 27 of x, which has 27 columns"),
        ("", "no cell that was run defines load_tile"),
    ):
        cells[at] = wrong
        with pytest.raises(
            NotYet, match=f"^This cell uses load_tile of the step `masks`, and that is not right yet: .*{said}"
        ):
            check_cells.needs("opening", "masks")


def test_a_cell_may_launch_a_step_that_is_wrong(monkeypatch):
    """The opening's last cell shows the error of a product without its first tile."""
    cells = edited("opening", "product", "range(0, K,", "range(BLOCK_K, K,")
    monkeypatch.setattr(check_cells, "inputs", lambda: cells)
    monkeypatch.setattr(step_values, "inputs", lambda: cells)
    check_cells.needs("opening", "product", right=False)
    at = next(i for i, cell in enumerate(cells) if "def multiply(" in cell)
    cells[at] = "@triton.jit\ndef multiply(x_ptr):\n    pass"
    with pytest.raises(
        NotYet, match="multiply of the step `product`, and that is not right yet: multiply is still the stub"
    ):
        check_cells.needs("opening", "product", right=False)


def test_a_cell_that_launches_a_kernel_needs_one(monkeypatch):
    """A stub stores nothing, and its layer's largest error would be nan; a kernel that is wrong may be launched."""
    cells = solution_cells("dds")
    monkeypatch.setattr(check_cells, "inputs", lambda: cells)
    monkeypatch.setattr(step_values, "inputs", lambda: cells)
    check_cells.needs("dds")
    at = next(i for i, cell in enumerate(cells) if "def DDS_MM(" in cell)
    cells[at] = "@triton.jit\ndef DDS_MM(x_ptr):\n    pass"
    with pytest.raises(NotYet, match="DDS_MM is still the stub"):
        check_cells.needs("dds")
