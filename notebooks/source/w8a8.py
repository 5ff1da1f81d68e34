# %% [markdown]
# # W8A8: products of small integers
#
# $$y_{mn} = s_m\,t_n \sum_k q_{mk}\,r_{nk}, \qquad q_{mk} = \mathrm{clamp}\big(\mathrm{round}(x_{mk} / s_m), -128, 127\big)$$
#
# - The weight arrives as int8: $r$, with one scale $t_n$ for each output channel. That was done once, long ago.
# - The activations arrive as fp16. **Your kernel** turns them into int8: $q$, with one scale $s_m$ for each token.
# - The sum is over integers, so it runs on the int8 tensor cores, twice as fast as in fp16, and it is exact.
#
# You write one Triton kernel, `W8A8_MM`. We get there in six small steps.

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## What quantising does to a token
#
# One row of $X$ and its 256 levels:

# %%
torch.manual_seed(0)
x = torch.randn(32, 256)
scale = x.abs().amax(dim=1) / 127
pictures.quantisation(x[0], float(scale[0]), name="one token")

# %% [markdown]
# The scale is an input of the kernel, and somebody may pass one that is too small. Then values beyond 127
# pile up at the ends. That is what the clamp is for:

# %%
pictures.quantisation(x[0], 0.4 * float(scale[0]), name="a scale too small")

# %% [markdown]
# ## The layer around your kernel
#
# This is given. Read it once: it says what your kernel is called with.
# `naive` is the same result in plain PyTorch, slow and right.

# %%
# include solutions/w8a8.py: row_scales .. launch

# %% [markdown]
# ## Step 1: load a tile
#
# A tile is addressed by its row numbers, its column numbers and a stride for each axis.
# No masks yet: here everything is inside.

# %% solution="w8a8_step_load"
@triton.jit
def load_tile(ptr, rows, columns, stride_row, stride_column):
    """[len(rows), len(columns)]; element (i, j) is at rows[i] * stride_row + columns[j] * stride_column."""
    ### BEGIN SOLUTION
    return tl.load(ptr + rows[:, None] * stride_row + columns[None, :] * stride_column)
    ### END SOLUTION

# %% test="w8a8_step_load_check"
check("w8a8", step="load")

# %% [markdown]
# ## Step 2: quantise it
#
# Divide each row by its scale, round to the nearest integer, clamp, convert.
#
# `.to(tl.int8)` alone cuts fractions off, and that is not rounding. There is no `tl.round`;
# `tl.floor(v + 0.5)` is one way to the nearest integer. Clamp *before* you convert.

# %% solution="w8a8_step_quantise"
@triton.jit
def quantise_tile(x, scale):
    """x fp16 [rows, columns], scale fp32 [rows] -> int8 [rows, columns]."""
    ### BEGIN SOLUTION
    nearest = tl.floor(x.to(tl.float32) / scale[:, None] + 0.5)
    return tl.minimum(tl.maximum(nearest, -128.0), 127.0).to(tl.int8)
    ### END SOLUTION

# %% test="w8a8_step_quantise_check"
check("w8a8", step="quantise")

# %% [markdown]
# ## Step 3: one dot
#
# `tl.dot` multiplies two tiles and adds to a third. int8 operands want an int32 accumulator;
# `out_dtype=tl.int32` asks for it.

# %% solution="w8a8_step_dot"
@triton.jit
def multiply_tiles(q, w, acc):
    """q int8 [rows, depth], w int8 [depth, columns], acc int32 [rows, columns] -> acc + q @ w, int32."""
    ### BEGIN SOLUTION
    return tl.dot(q, w, acc, out_dtype=tl.int32)
    ### END SOLUTION

# %% test="w8a8_step_dot_check"
check("w8a8", step="dot")

# %% [markdown]
# ## Step 4: the loop
#
# Now walk along $K$, `BLOCK_K` columns of $X$ at a time, and add up. Call your own functions from the steps above.
#
# The weight arrives as `[K, N]`: row `k`, column `n`. Its strides are parameters like those of $X$.
# `K` is a multiple of `BLOCK_K` here.

# %% solution="w8a8_step_loop"
@triton.jit
def accumulate(
    x_ptr, qweight_ptr, input_scale, rows, columns, K,
    stride_xm, stride_xk, stride_wk, stride_wn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """The integer sum of one tile: int32 [BLOCK_M, BLOCK_N]. input_scale fp32 [BLOCK_M] belongs to `rows`."""
    ### BEGIN SOLUTION
    depth = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, K, BLOCK_K):
        x = load_tile(x_ptr, rows, k + depth, stride_xm, stride_xk)
        w = load_tile(qweight_ptr, k + depth, columns, stride_wk, stride_wn)
        acc = multiply_tiles(quantise_tile(x, input_scale), w, acc)
    return acc
    ### END SOLUTION

# %% test="w8a8_step_loop_check"
check("w8a8", step="loop")

# %% [markdown]
# ## Step 5: the epilogue
#
# Both scales come in here, once for each element of $Y$: $s_m$ goes down the rows, $t_n$ across the columns.

# %% solution="w8a8_step_epilogue"
@triton.jit
def rescale(acc, input_scale, weight_scale):
    """acc int32 [rows, columns], scales fp32 [rows] and [columns] -> fp16 [rows, columns]."""
    ### BEGIN SOLUTION
    return (acc.to(tl.float32) * input_scale[:, None] * weight_scale[None, :]).to(tl.float16)
    ### END SOLUTION

# %% test="w8a8_step_epilogue_check"
check("w8a8", step="epilogue")

# %% [markdown]
# ## Step 6: masks
#
# $M$ is any number of tokens; tiles have fixed sizes. What lies beyond the matrix must not be read,
# and must count as zero in the sum.

# %% solution="w8a8_step_masks"
@triton.jit
def load_masked(ptr, rows, columns, row_count, column_count, stride_row, stride_column):
    """load_tile, with zeros for rows from row_count on and columns from column_count on."""
    ### BEGIN SOLUTION
    inside = (rows < row_count)[:, None] & (columns < column_count)[None, :]
    at = rows[:, None] * stride_row + columns[None, :] * stride_column
    return tl.load(ptr + at, mask=inside, other=0)
    ### END SOLUTION

# %% test="w8a8_step_masks_check"
check("w8a8", step="masks")

# %% [markdown]
# ## The kernel
#
# All the pieces are there. What is new: which tile of $Y$ is this program's?
#
# 1. `pid = tl.program_id(0)` counts tiles row by row: `cdiv(N, BLOCK_N)` tiles make a row of tiles.
# 2. Load the scales of its rows and columns (masked, too).
# 3. Run the loop with masked loads; `K` may now end inside a tile.
# 4. Rescale, and store with a mask.
#
# Use your functions or write it all anew. Leave `SPLIT_K` alone at first: with 1 it changes nothing.
# One habit saves trouble with huge tensors: row and column numbers as `.to(tl.int64)` before they meet a stride.

# %% solution="w8a8_kernel"
# include solutions/w8a8.py: CONFIGS .. W8A8_MM_grid

# %% [markdown]
# This is the grader. Without a GPU it takes about ten seconds.
# Wrong numbers come with the place, a picture of the wrong tiles, and often the likely mistake.

# %% test="w8a8_correctness" points=60
check("w8a8")

# %% [markdown]
# ## Your kernel in its layer
#
# A small linear layer, quantised, with your kernel inside:

# %%
torch.manual_seed(0)
linear = torch.nn.Linear(128, 64, bias=False)
layer = QuantizedLinear_w8a8.from_linear(linear).to(device)
x = torch.randn(5, 128, device=device).half()
y, exact = layer(x).double().cpu(), x.double().cpu() @ linear.weight.detach().double().T
print(f"relative error of this layer with 8 bits: {float((y - exact).norm() / exact.norm()):.2%}")

# %% [markdown]
# ## What your kernel does to memory
#
# The interpreter knows every address that your kernel loads and stores. The next cells run it on a few tiles and count. Nothing is graded.
#
# First, who makes what: each tile of $Y$ carries the number of its program, in the order in which a GPU starts them.

# %%
from grader.notebook import show_memory, show_order, show_programs, show_warp

show_programs("w8a8")

# %% [markdown]
# Predict before you run the next cell: $Y$ is four by four tiles. How often is each element of $X$ loaded, how often each of the weight?
# Program 5 is drawn; try another number, or `sizes=(M, N, K)`, or `config=1`.

# %%
show_memory("w8a8", program=5)

# %% [markdown]
# Programs of one row of tiles load the same rows of $X$, those of one column the same columns of the weight. **Larger tiles load less**:
# twice the columns in a tile, half as many loads of $X$.
#
# A warp loads together, and memory comes in *sectors* of 32 bytes. Neighbouring threads should ask for neighbouring bytes:

# %%
show_warp("w8a8")

# %% [markdown]
# Does it matter which tile comes first? Programs that run at the same time share what is in L2. This models a small GPU, the T4:

# %%
show_order("w8a8", gpu="T4")

# %% [markdown]
# On a GPU whose L2 holds all of it (`gpu="H100"`) the order decides nothing here. Numbering the tiles in another order is called a *swizzle*.

# %% [markdown]
# ## How fast can it get?
#
# Right is 60 points. Fast is the other 40. This is a way that was really walked, one idea a step:
#
# @ladder w8a8: m16_n4096_k4096 m512_n4096_k4096 m4096_n4096_k4096
#
# Each step below has one change, one number to predict and one cell that checks. Predict first: being wrong is free, and a surprise
# teaches most. Then change the kernel above, run its cell, and look again. Your kernel may have taken some of the steps already.
#
# The checks hold no watch. They look at what the compiler made of your kernel for an H200 (the instructions of one turn of the
# loop, the registers, the shared memory), at the grid, and at the bytes that the interpreter counts on a small problem. They are
# worth no points; the clock at the end is.

# %% [markdown]
# ### Faster, step 1: the scales leave the loop
#
# Both scales are constant along $K$, so they need not touch a partial sum. Let the accumulator be int32, and rescale once, behind
# the loop. It looks like a big win: predict how much work goes away. The clock thinks less of it while something else in the
# loop is slower.
#
# @speed w8a8: epilogue

# %% solution="w8a8_faster_epilogue"
rescales = ...
### BEGIN SOLUTION
rescales = 1  # once, behind the loop; inside it would be K / BLOCK_K times
### END SOLUTION
predict("w8a8", "epilogue", rescales)

# %% test="w8a8_faster_epilogue_check"
check("w8a8", speed="epilogue")

# %% [markdown]
# ### Faster, step 2: no division in the loop
#
# That something is the division. $x / s$ is $x \cdot (1/s)$ but for the last bit, and $1/s$ is the same for the whole row.
#
# @speed w8a8: reciprocal

# %% solution="w8a8_faster_reciprocal"
divisions = ...
### BEGIN SOLUTION
divisions = 0  # this kernel multiplies; one that divides does it BLOCK_M * BLOCK_K / threads times
### END SOLUTION
predict("w8a8", "reciprocal", divisions)

# %% test="w8a8_faster_reciprocal_check"
check("w8a8", speed="reciprocal")

# %% [markdown]
# ### Faster, step 3: cheap rounding
#
# `tl.floor` and the conversion to int8 run at a part of the rate of a multiply-add. There is a cheaper way: add
# $1.5 \cdot 2^{23}$. An fp32 number of that size has no bits left for a fraction, so the addition itself rounds to nearest, and
# the low byte of the result *is* the integer. Clamp while it is still a float.
#
# @speed w8a8: rounding

# %% solution="w8a8_faster_rounding"
instructions = ...
### BEGIN SOLUTION
instructions = 3  # a conversion, a multiply-add, and two clamps for two values at a time
### END SOLUTION
predict("w8a8", "rounding", instructions)

# %% test="w8a8_faster_rounding_check"
check("w8a8", speed="rounding")

# %% [markdown]
# ### Faster, step 4: wide tiles
#
# A value of $X$ is quantised again by every program that needs its row, one for each tile of columns. The wider the tile, the fewer
# there are; but its sum has to fit in registers.
#
# @speed w8a8: tiles

# %% solution="w8a8_faster_tiles"
programs = ...
### BEGIN SOLUTION
programs = 4096 // 256
### END SOLUTION
predict("w8a8", "tiles", programs)

# %% test="w8a8_faster_tiles_check"
check("w8a8", speed="tiles")

# %% [markdown]
# ### Faster, step 5: few tokens: who takes the rows?
#
# wgmma, the matrix instruction of Hopper, multiplies at least 64 rows of its first operand. With 16 tokens, $X$ does not have
# them. $Y^\top = W X^\top$: the weight does.
#
# @speed w8a8: rows

# %% solution="w8a8_faster_rows"
multiply_adds = ...
### BEGIN SOLUTION
multiply_adds = 1  # this kernel gives the rows to the weight; with BLOCK_M = 64 it would be 64 / 16
### END SOLUTION
predict("w8a8", "rows", multiply_adds)

# %% test="w8a8_faster_rows_check"
check("w8a8", speed="rows")

# %% [markdown]
# ### Faster, step 6: few tokens: work for every multiprocessor
#
# With 16 tokens $Y$ has few tiles, so most of the GPU idles. `SPLIT_K` programs share a tile, each takes a part of $K$, and
# `tl.atomic_add` joins them. $Y$ then arrives zeroed, and the zeroing is timed. Narrow tiles are the other way.
#
# @speed w8a8: split

# %% solution="w8a8_faster_split"
programs = ...
### BEGIN SOLUTION
programs = 4096 // 128 * 8
### END SOLUTION
predict("w8a8", "split", programs)

# %% test="w8a8_faster_split_check"
check("w8a8", speed="split")

# %% [markdown]
# ### By the clock
#
# **Your levers:** configs (up to 16; the fastest right one counts), the loop body, the order of programs. What the last row of the table
# has besides these steps: two fp16 values clamped at a time, and the weight by tensor descriptor. A swizzle, which takes the
# tiles of Y in groups for the sake of L2, came with step 4 of the table and was dropped again: at these sizes the programs
# that run at the same time share their rows and columns anyway.

# %% test="w8a8_speed" points=40
check_speed("w8a8")

# %% [markdown]
# ## Questions
#
# **1. Arithmetic intensity.** For $N = K = 4096$, compute the operations per byte of fp16 and of W8A8 with $M = 16$ and
# with $M = 4096$. On a GPU with 4.8 TB/s, 989 TFLOP/s in fp16 and 1979 TOP/s in int8: what limits each of the four,
# and what is the most that W8A8 can gain?

# %% [markdown] answer="w8a8_question_intensity" points=4
# $M = 16$: $2MNK = 0.54$ G operations. fp16 moves 33.8 MB (15.9 operations a byte), W8A8 17.1 MB (31.5). The GPU
# balances at about 206 (fp16) and 412 (int8), so memory limits both: 7.0 us and 3.6 us, at most twice as fast.
# $M = 4096$: 137 G operations; fp16 1365 a byte, W8A8 (fp16 in and out) 1638. The tensor cores limit both: 139 us and
# 69 us, again at most twice as fast, and the quantising in the kernel comes on top.

# %% [markdown]
# **2. Scales.** Outliers sit in a few input channels, so a scale for each *column* of $X$ would quantise better.
# Why can this kernel not use one? What could be done to $X$ and $W$ beforehand to the same effect?

# %% [markdown] answer="w8a8_question_scales" points=3
# With $x_{mk} = s_k q_{mk}$ the sum is $\sum_k s_k q_{mk} r_{nk}$: $s_k$ varies along the summed axis, cannot leave the
# sum, and would have to be multiplied into every product, which an integer matrix instruction cannot do. Beforehand one
# can divide column $k$ of $X$ by $s_k$ and multiply column $k$ of $W$ by it, since $XW^\top = (X D^{-1})(W D)^\top$: part of
# the outliers moves into the weight before either is quantised, and the usual per-token and per-channel scales do.

# %% [markdown]
# **3. Quantised again.** How often does the whole launch quantise one element of $X$, for $N = 4096$ and
# `BLOCK_N` = 64 or 256? When would a separate kernel that quantises $X$ once be better, and what would it cost?

# %% [markdown] answer="w8a8_question_again" points=3
# $N / \mathrm{BLOCK\_N}$ times: 64 or 16. A separate kernel quantises once, but it writes $MK$ bytes that the product then reads
# (instead of $2MK$ of fp16), and it is one more launch. It pays with many tokens and a wide $N$, where quantising
# competes with the products; with few tokens the launch alone costs more than it saves.

# %% [markdown]
# ## Done?
#
# Save this notebook. `make grade` reads the saved file and gives the same answer as the cells above.
