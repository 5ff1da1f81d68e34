# %% [markdown]
# # W8A8: products of small integers
#
# $$y_{mn} = s_m\,t_n \sum_k q_{mk}\,r_{nk}, \qquad q_{mk} = \mathrm{clamp}\big(\mathrm{round}(x_{mk} / s_m), -128, 127\big)$$
#
# - The weight arrives as int8: $r$, with one scale $t_n$ for each output channel. That was done once, long ago.
# - The activations arrive as fp16. **Your kernel** turns them into int8: $q$, with one scale $s_m$ for each token.
# - The sum is over integers, so it runs on the int8 tensor cores, at twice the rate of fp16, and it is exact: a product is
#   at most $2^{14}$, and int32 holds every sum of fewer than $2^{17} = 131072$ of them without overflow.
#
# This is **dynamic** quantisation: a token's scale comes from that token, while the model runs. **Static** quantisation
# fixes the scales beforehand, from sample inputs; finding them is called **calibration**. It saves the pass over $X$ that
# finds the maxima, and an input unlike the samples is clamped.
#
# Quantising and rescaling are **fused** into the product: the int8 copy of $X$ and the int32 sums live in registers and
# shared memory, and never travel to DRAM and back.
#
# You write one Triton kernel, `W8A8_MM`. We get there in six small steps, with what the opening's warm-ups taught.

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
# The layer computes `input_scale` before it calls your kernel. The opening's warm-up `scales` was a kernel for that.
# So the clock of this lab does not see it, and a library that finds the scales itself pays for that inside its time. Keep it in
# mind when you compare: on an H200 and with 4096 tokens the solution took @bench{time_us("w8a8", "m4096_n4096_k4096"):.0f} us with the scales given,
# GemLite's dynamic kernel @bench{time_us("w8a8", "m4096_n4096_k4096", "GemLite A8W8 dynamic"):.0f} us and torchao's @bench{time_us("w8a8", "m4096_n4096_k4096", "torchao int8 dynamic, torch.compile"):.0f} us with the scales found, and
# PyTorch's product alone, with X quantised beforehand and nothing rescaled, @bench{time_us("w8a8", "m4096_n4096_k4096", "torch._int_mm alone"):.0f} us.

# %%
# include solutions/w8a8.py: row_scales .. launch

# %% [markdown]
# ## Step 1: load a tile
#
# A tile is addressed by its row numbers, its column numbers and a stride for each axis.
# $M$ is any number of tokens and tiles have fixed sizes, so each axis also has an end. What lies beyond it must not be
# read, and must count as zero in the sum. You wrote this function in the opening: copy it.

# %% solution="w8a8_step_load"
@triton.jit
def load_tile(ptr, rows, columns, row_count, column_count, stride_row, stride_column):
    """The tile [len(rows), len(columns)] of a matrix, with zeros beyond the end of either axis."""
    ### BEGIN SOLUTION
    inside = (rows < row_count)[:, None] & (columns < column_count)[None, :]
    at = rows[:, None] * stride_row + columns[None, :] * stride_column
    return tl.load(ptr + at, mask=inside, other=0)
    ### END SOLUTION

# %% test="w8a8_step_load_check"
check("w8a8", step="load")

# %% [markdown]
# ## Step 2: quantise it
#
# Divide each row by its scale, round to the nearest integer, clamp, convert.
#
# `.to(tl.int8)` alone cuts fractions off, and that is not rounding. There is no `tl.round`;
# `tl.floor(v + 0.5)` is one way to the nearest integer. `tl.minimum` and `tl.maximum` clamp. Clamp *before* you convert:
# what does not fit int8 is wrapped round otherwise, 128 to -128. That is called **overflow**.

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
# Now walk along $K$, `BLOCK_K` columns of $X$ at a time, and add up, as in the opening's `multiply`: a sum that begins with zeros
# (int32 here), and a loop. Call your own functions from the steps above.
#
# The weight arrives as `[K, N]`: row `k`, column `n`. Its strides are parameters like those of $X$, and `load_tile` loads
# it as well: its rows end at `K`, its columns at `N`. `K` may end inside the last tile.

# %% solution="w8a8_step_loop"
@triton.jit
def accumulate(
    x_ptr, qweight_ptr, input_scale, rows, columns, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """The integer sum of one tile: int32 [BLOCK_M, BLOCK_N]. input_scale is fp32 [BLOCK_M]."""
    ### BEGIN SOLUTION
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, K, BLOCK_K):
        depth = k + tl.arange(0, BLOCK_K)
        x = load_tile(x_ptr, rows, depth, M, K, stride_xm, stride_xk)
        w = load_tile(qweight_ptr, depth, columns, K, N, stride_wk, stride_wn)
        acc = multiply_tiles(quantise_tile(x, input_scale), w, acc)
    return acc
    ### END SOLUTION

# %% test="w8a8_step_loop_check"
check("w8a8", step="loop")

# %% [markdown]
# ## Step 5: the epilogue
#
# Both scales come in here, once for each element of $Y$: $s_m$ goes down the rows, $t_n$ across the columns.
# The sum is still in registers. Mind the order: fp16 ends at 65504, and an integer sum soon lies beyond it.

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
# ## Step 6: store
#
# The other end of `load_tile`: the same addresses, the same mask.

# %% solution="w8a8_step_store"
@triton.jit
def store_tile(y_ptr, y, rows, columns, M, N, stride_ym, stride_yn):
    """Stores y, fp16 [len(rows), len(columns)], where rows are below M and columns below N."""
    ### BEGIN SOLUTION
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(y_ptr + rows[:, None] * stride_ym + columns[None, :] * stride_yn, y, mask=inside)
    ### END SOLUTION

# %% test="w8a8_step_store_check"
check("w8a8", step="store")

# %% [markdown]
# ## The kernel
#
# All the pieces are there. Put together, none rewritten, they are a kernel worth 60 points:
#
# 1. Which tile of $Y$ is this program's? `pid = tl.program_id(0)` counts tiles row by row, and `tl.cdiv(N, BLOCK_N)` tiles
#    make a row of tiles: the tile's row is `pid // tl.cdiv(N, BLOCK_N)`, its column `pid % tl.cdiv(N, BLOCK_N)`, as in
#    the opening's `multiply`. From them, `rows` and `columns`.
# 2. The scales of these rows and columns: two loads of one axis, masked at `M` and `N`, with `other=1.0` (a scale of 0 would
#    be divided by).
# 3. `accumulate(...)`, then `rescale(...)`, then `store_tile(...)`.
#
# They go where `pass` stands. The other `# YOUR CODE HERE`, below `CONFIGS`, is for more configs, later; leave it empty now.
# Leave `SPLIT_K` alone, too: with 1 it changes nothing.
# One habit saves trouble with huge tensors: row and column numbers as `.to(tl.int64)` before they meet a stride.
# Later, for speed, you will want to take the pieces apart again.

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
# ## How fast can it get?
#
# Right is 60 points. Fast is the other 40. This is a way that was really walked, one idea a step:
#
# @ladder w8a8: m16_n4096_k4096 m512_n4096_k4096 m4096_n4096_k4096
#
# What to read from it:
#
# - **Step 2** looked like a big win and was not. Taking the scales out of the loop helps little while something
#   else in the loop is slower.
# - **Step 3** found that something: the division. Multiplying by $1/s$, one division a row, halves the time with many tokens.
# - **Step 4**: a value of $X$ is quantised again by every program that shares its row. Wider tiles mean fewer of them.
# - With 16 tokens there are few tiles, and most of the GPU idles. The last step gives it work: think of `SPLIT_K`,
#   and of which operand should be the tall one.
#
# Predict before you measure: that of step 2 was a third off the time, and a tenth came. Such surprises teach the most.
#
# **Your levers:** configs (up to 16; the fastest right one counts), the loop body, the order of programs.

# %% test="w8a8_speed" points=40
check_speed("w8a8")

# %% [markdown]
# ## Questions
#
# **1. Arithmetic intensity.** For $N = K = 4096$, compute the operations per byte of fp16 and of W8A8 with $M = 16$ and
# with $M = 4096$. On a GPU with @bench{bytes_per_second / 1e12:.1f} TB/s, @bench{fp16_per_second / 1e12:.0f} TFLOP/s in fp16 and @bench{2 * fp16_per_second / 1e12:.0f} TOP/s in int8: what limits each of the four,
# and what is the most that W8A8 can gain?

# %% [markdown] answer="w8a8_question_intensity" points=4
# $M = 16$: $2MNK = 0.54$ G operations. fp16 moves 33.8 MB (15.9 operations a byte), W8A8 17.1 MB (31.5). The GPU
# balances at about @bench{fp16_per_second / bytes_per_second:.0f} (fp16) and @bench{2 * fp16_per_second / bytes_per_second:.0f} (int8), so memory limits both: @bench{1e6 * 2 * (2 * 16 * 4096 + 4096**2) / bytes_per_second:.1f} us and @bench{1e6 * (4 * 16 * 4096 + 4096**2) / bytes_per_second:.1f} us, at most twice as fast.
# $M = 4096$: 137 G operations; fp16 1365 a byte, W8A8 (fp16 in and out) 1638. The tensor cores limit both: @bench{1e6 * 2 * 4096**3 / fp16_per_second:.0f} us and
# @bench{1e6 * 4096**3 / fp16_per_second:.0f} us, again at most twice as fast, and the quantising in the kernel comes on top.

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
