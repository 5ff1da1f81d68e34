# %% [markdown]
# # W4A16: a quarter of the bytes
#
# $$y_{mn} = s_n \sum_k x_{mk}\,q_{kn}, \qquad q_{kn} \in \{-8, \dots, 7\}$$
#
# - The weight arrives as int4, eight to an int32 word, with one fp16 scale $s_n$ for each output channel.
# - The activations stay fp16: this is **weight-only** quantisation. Nothing about $X$ has to be found out while the model runs,
#   and no error is made in it.
# - **Your kernel**, `W4A16_MM`, opens the words and multiplies. Opening is **fused** into the product: the fp16 weight exists
#   in registers and shared memory, tile by tile, and never in DRAM.
#
# With one token, nearly all the time of a linear layer is reading its weight. Four bits instead of sixteen:
# that is the prize. The price is opening the words.

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## One word
#
# Eight neighbours along $K$, the first in the lowest four bits. Four bits above 7 are negative:

# %%
pictures.int4_word(0xE9035A7F, row=5, column=3)

# %% [markdown]
# `(word >> 4 * i) & 0xF` gives 0 to 15: the sign is lost. Keep that in mind for step 2.
#
# Sixteen levels are few. Here is a row of weights on them:

# %%
torch.manual_seed(0)
w = torch.randn(512)
pictures.quantisation(w, float(w.abs().max() / 7), bits=4, name="one output channel")

# %% [markdown]
# ## The layer around your kernel
#
# This is given. Read `pack_int4` and `unpack_int4` once: your kernel does the second, tile by tile.

# %%
# include solutions/w4a16.py: quantise .. launch

# %% [markdown]
# ## Two functions that you know
#
# You wrote them for the opening and for W8A8. They are given here, so run the cell; use them for $X$ and for $Y$.

# %%
# include notebooks/source/parts/load_tile.py


# include notebooks/source/parts/store_tile.py

# %% [markdown]
# ## Step 1: load words
#
# A tile of `BLOCK_K` rows of the weight is `BLOCK_K // 8` rows of words.
# `qweight` is `[K / 8, N]`, word `(j, n)` at `j * stride_wk + n * stride_wn`.
# `first_k` is where the tile begins along $K$, a multiple of 8.
#
# $K$ and $N$ are multiples of 8, and seldom of your tile. A word is inside or outside as a whole, so the mask is one of
# words, and what lies beyond is a word of zeros.

# %% solution="w4a16_step_load"
@triton.jit
def load_words(qweight_ptr, first_k, columns, K, N, stride_wk, stride_wn, BLOCK_K: tl.constexpr):
    """The words that hold rows first_k to first_k + BLOCK_K - 1: int32 [BLOCK_K // 8, len(columns)].

    Zero for words beyond row K of the weight and for columns from N on.
    """
    ### BEGIN SOLUTION
    words = first_k // 8 + tl.arange(0, BLOCK_K // 8)
    inside = (words < K // 8)[:, None] & (columns < N)[None, :]
    at = words[:, None] * stride_wk + columns[None, :] * stride_wn
    return tl.load(qweight_ptr + at, mask=inside, other=0)
    ### END SOLUTION

# %% test="w4a16_step_load_check"
check("w4a16", step="load")

# %% [markdown]
# ## Step 2: open them
#
# From `[words, columns]` to `[8 * words, columns]`, in the order of $K$. The opening's `unpack` opened a row of words
# so that each got a row of its own; here the eight elements of a word go *down*.
#
# The sign: shift a nibble *left* until its top bit is the word's top bit, then right by 28.
# On a signed integer `>>` copies the sign bit.
#
# The order: make it `[words, 8, columns]` with a tile of eight shifts in the middle
# (`[:, None, :]` and `[None, :, None]`), then `tl.reshape`.

# %% solution="w4a16_step_unpack"
@triton.jit
def unpack_words(words):
    """int32 [W, columns] -> fp16 [8 * W, columns], values -8 to 7; W is words.shape[0]."""
    ### BEGIN SOLUTION
    shifts = (28 - 4 * tl.arange(0, 8))[None, :, None]
    q = (words[:, None, :] << shifts) >> 28
    return tl.reshape(q, (8 * words.shape[0], words.shape[1])).to(tl.float16)
    ### END SOLUTION

# %% test="w4a16_step_unpack_check"
check("w4a16", step="unpack")

# %% [markdown]
# ## Step 3: one dot
#
# fp16 operands, fp32 accumulator. The integers -8 to 7 are exact in fp16, so nothing is lost here.

# %% solution="w4a16_step_dot"
@triton.jit
def multiply_tiles(x, q, acc):
    """x fp16 [rows, depth], q fp16 [depth, columns], acc fp32 [rows, columns] -> acc + x @ q, fp32."""
    ### BEGIN SOLUTION
    return tl.dot(x, q, acc)
    ### END SOLUTION

# %% test="w4a16_step_dot_check"
check("w4a16", step="dot")

# %% [markdown]
# ## Step 4: the loop
#
# Walk along $K$: a tile of $X$ (`load_tile`), the words beside it, open, multiply, add. `K` may end inside the last tile.

# %% solution="w4a16_step_loop"
@triton.jit
def accumulate(
    x_ptr, qweight_ptr, rows, columns, M, N, K,
    stride_xm, stride_xk, stride_wk, stride_wn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """The sum of one tile, without scales: fp32 [BLOCK_M, BLOCK_N]."""
    ### BEGIN SOLUTION
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = load_tile(x_ptr, rows, k + tl.arange(0, BLOCK_K), M, K, stride_xm, stride_xk)
        words = load_words(qweight_ptr, k, columns, K, N, stride_wk, stride_wn, BLOCK_K)
        acc = multiply_tiles(x, unpack_words(words), acc)
    return acc
    ### END SOLUTION

# %% test="w4a16_step_loop_check"
check("w4a16", step="loop")

# %% [markdown]
# ## Step 5: the epilogue
#
# $s_n$ does not depend on $k$, so it left the sum. Apply it once, while the sum is still in registers, and convert.
#
# Mind the order. fp16 ends at 65504; a sum of $x q$ may lie beyond it and its scaled value well below. A number too large
# for its type becomes inf (**overflow**), and no scale brings it back.

# %% solution="w4a16_step_epilogue"
@triton.jit
def apply_scales(acc, scales):
    """acc fp32 [rows, columns], scales fp16 [columns] -> fp16 [rows, columns]."""
    ### BEGIN SOLUTION
    return (acc * scales.to(tl.float32)[None, :]).to(tl.float16)
    ### END SOLUTION

# %% test="w4a16_step_epilogue_check"
check("w4a16", step="epilogue")

# %% [markdown]
# ## The kernel
#
# All the pieces are there. Put together, none rewritten, they are a kernel worth 60 points:
#
# 1. Which tile of $Y$ is this program's? `pid = tl.program_id(0)` counts tiles row by row, and `tl.cdiv(N, BLOCK_N)` tiles
#    make a row of tiles. From `pid`, `rows` and `columns`, as in W8A8.
# 2. The scales of its columns: one load of one axis, masked at `N`.
# 3. `accumulate(...)`, then `apply_scales(...)`, then `store_tile(...)`, which is given above.
#
# They go where `pass` stands. What may stand above the kernel, more configs and helpers, is for later.
# Leave `SPLIT_K` alone, too: with 1 it changes nothing.

# %% solution="w4a16_kernel"
# include solutions/w4a16.py: CONFIGS .. W4A16_MM_grid

# %% [markdown]
# This is the grader. Without a GPU it takes about ten seconds.

# %% test="w4a16_correctness" points=60
check("w4a16")

# %% [markdown]
# ## Your kernel in its layer

# %%
torch.manual_seed(0)
linear = torch.nn.Linear(128, 64, bias=False)
layer = QuantLinear_w4a16.from_linear(linear).to(device)
x = torch.randn(5, 128, device=device).half()
y, exact = layer(x).double().cpu(), x.double().cpu() @ linear.weight.detach().double().T
print(f"relative error of this layer with 4 bits: {float((y - exact).norm() / exact.norm()):.1%}")
print(f"its weight takes {layer.qweight.numel() * 4} bytes instead of {linear.weight.numel() * 2} in fp16")

# %% [markdown]
# ## How fast can it get?
#
# A way that was really walked, one idea a step:
#
# @ladder w4a16: m1_n4096_k4096 m16_n4096_k4096 m512_n4096_k4096
#
# What to read from it:
#
# - **Steps 1 and 2** load each word eight times, once for every element in it. DRAM is read once, and the caches answer the rest;
#   what it costs is instructions, eight loads where one would do.
# - **Step 3** loads it once. That helps less than one hopes: the opened weights still travel
#   through shared memory, as they did before, and that trip is left.
# - **Step 4** is the big one for few tokens. With one token, 4096 columns in tiles of 64 are 64 programs, on a GPU
#   with 132 multiprocessors. `SPLIT_K` programs share a tile, each takes a part of $K$, and `tl.atomic_add` joins them.
#   $Y$ then arrives zeroed, and the zeroing is timed. With 512 tokens the taller tile helps: a nibble is opened once
#   for 128 rows instead of 64.
# - **Step 5** is the other big one, for every number of tokens. On Hopper `tl.dot` on large tiles (wgmma) may take its
#   first operand from registers, its second only from shared memory. With the weight first, and each thread opening
#   just the nibbles it multiplies, the trip is gone.
# - What still waits, with one token: $Y$ is zeroed and added to by atomics, and several threads read each word and use
#   some of its nibbles only. Could the warps of one program share $K$ instead, and a thread open a whole word?
# - With 512 tokens nobody here beats cuBLAS: the products are fp16 products either way, so the floor is the same for both
#   (@bench{1e6 * 2 * 512 * 4096**2 / fp16_per_second:.0f} us at the tensor cores' peak, where cuBLAS takes @bench{cublas_us("w4a16", "m512_n4096_k4096"):.0f}), and opening the words comes on top.
#
# **Your levers:** configs (up to 16), `SPLIT_K`, how a word is opened, which operand `tl.dot` gets first.

# %% test="w4a16_speed" points=40
check_speed("w4a16")

# %% [markdown]
# ## Questions
#
# **1. Arithmetic intensity.** For $N = K = 4096$, how many bytes must one launch move in fp16 and in W4A16, with
# $M = 1$ and with $M = 512$? On a GPU with @bench{bytes_per_second / 1e12:.1f} TB/s and @bench{fp16_per_second / 1e12:.0f} TFLOP/s in fp16: how much faster can W4A16 be at best in each case?

# %% [markdown] answer="w4a16_question_intensity" points=4
# $M = 1$: fp16 33.6 MB, W4A16 8.4 MB. Two operations a weight are nothing, so memory decides: @bench{1e6 * 2 * 4096**2 / bytes_per_second:.1f} us against @bench{1e6 * 4096**2 / 2 / bytes_per_second:.1f} us, at best
# four times as fast. $M = 512$: fp16 42 MB, W4A16 16.8 MB; 17.2 G operations are 410 and 1024 a byte, both above the @bench{fp16_per_second / bytes_per_second:.0f} where
# this GPU balances. There is no int4 x fp16 instruction, so both take at least @bench{1e6 * 2 * 512 * 4096**2 / fp16_per_second:.1f} us in the tensor cores: nothing
# to gain, and opening the words comes on top.

# %% [markdown]
# **2. When to scale.** A kernel could multiply $q$ by $s_n$ right after opening it, in fp16. Name two things that are worse about that.

# %% [markdown] answer="w4a16_question_scale" points=3
# The product $q s$ is rounded to fp16 (a relative error of up to $2^{-11}$ in every weight), while $q$ alone is exact. And it
# is one multiplication for each weight in each tile, $N K$ for every row of tiles, instead of one for each element of $Y$.

# %% [markdown]
# **3. Order.** Suppose your kernel opens each word in the order 0, 4, 1, 5, 2, 6, 3, 7. Can the result still be right,
# without sorting anything in the weight? Why might somebody want that?

# %% [markdown] answer="w4a16_question_order" points=3
# Yes: a sum does not depend on the order of its terms, so if the columns of $X$ are loaded in the same order, each product
# still meets its partner. One may want it because some orders are cheaper to make: elements $j$ and $j + 4$ sit 16 bits apart, so one
# operation on the word treats both as the two halves of a pair of fp16 numbers.

# %% [markdown]
# ## Done?
#
# Save this notebook. `make grade` reads the saved file and gives the same answer as the cells above.
