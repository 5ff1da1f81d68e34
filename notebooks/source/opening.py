# %% [markdown]
# # Kernels for smaller numbers
#
# A large model spends its time in one operation: $Y = XW^\top$.
# This lab makes it cheaper in three ways, one notebook each:
#
# | notebook | the weight is | what gets cheaper |
# |---|---|---|
# | `w8a8` | int8, and so are the activations | the products |
# | `w4a16` | int4, eight weights to a word | reading the weight |
# | `dds` | mostly empty, in blocks of 32 x 32 | both, where nothing is stored |
#
# Nothing is to be handed in here. Read, run each cell (Shift+Enter), change numbers and run it again.
# Half an hour, and the three labs will look familiar.

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## 1. Where does the time go?
#
# $X$ is $[M, K]$: one row a token. $W$ is $[N, K]$, $Y$ is $[M, N]$.
#
# The product takes $2MNK$ operations, a multiplication and an addition each.
# It must also read $X$ and $W$ and write $Y$ at least once.
# Divide the two and you have the **arithmetic intensity**: operations per byte moved.

# %%
def intensity(M, N, K, x_bytes=2, w_bytes=2, y_bytes=2):
    """Operations per byte that must move."""
    return 2 * M * N * K / (M * K * x_bytes + N * K * w_bytes + M * N * y_bytes)


for M in (1, 16, 512, 4096):
    fp16, w8, w4 = (intensity(M, 4096, 4096, w_bytes=width) for width in (2, 1, 0.5))
    print(f"M = {M:4}: fp16 {fp16:7.1f}   int8 weight {w8:7.1f}   int4 weight {w4:7.1f}   operations a byte")

# %% [markdown]
# A GPU has a number of its own: what its tensor cores can do while one byte arrives.
# For an H200 that is about 200 operations in fp16 (989 TFLOP/s by 4.8 TB/s), and twice that in int8.
#
# - Below it you wait for **memory**: one token, a few tokens. Fewer bytes a weight is less time.
# - Above it you wait for the **tensor cores**: many tokens. Cheaper products are less time.
#
# That is the whole map of this lab. A drawing of it is called a roofline:

# %%
def spot(name, M):
    """Where fp16 would be if nothing but the two limits held; times in microseconds."""
    operations, moved = 2 * M * 4096**2, 2 * (2 * M * 4096 + 4096**2)
    best = max(operations / 989e6, moved / 4.8e6)
    return pictures.RooflinePoint(name, operations, moved, best, best)


points = [spot(f"M = {M}", M) for M in (1, 16, 64, 512)]
pictures.roofline(points, 4800, {"fp16": 989, "int8": 1979}, legend="the most that fp16 can do")

# %% [markdown]
# ## 2. Quantisation: fewer bits for a number
#
# Take a row of numbers. Find a **scale** $s$ so that the largest fits the largest integer, then round:
#
# $$q = \mathrm{clamp}\big(\mathrm{round}(x / s),\ -128,\ 127\big), \qquad s = \max|x| / 127, \qquad x \approx s\,q$$
#
# For int4 the bounds are $-8$ and $7$, and $s = \max|x| / 7$.
# Zero stays zero, so this is called *symmetric*: there is no offset to carry around.

# %%
torch.manual_seed(1)
row = torch.randn(512)
pictures.quantisation(row, float(row.abs().max() / 127), name="a well-behaved row")

# %% [markdown]
# Now one value is thirty times as large. It sets the scale for everyone:

# %%
row[100] = 30 * row.abs().mean()
pictures.quantisation(row, float(row.abs().max() / 127), name="one outlier")

# %% [markdown]
# The other values now share a few levels in the middle. This is why it matters **who shares a scale**.

# %% [markdown]
# ## 3. Which scales a matrix product can live with
#
# Say each element of $X$ and $W$ had a scale of its own, $x_{mk} = s_{mk}\,q_{mk}$ and $w_{nk} = t_{nk}\,r_{nk}$:
#
# $$y_{mn} = \sum_k s_{mk}\,t_{nk}\; q_{mk}\,r_{nk}$$
#
# The tensor cores can add up integers $q\,r$, and nothing else on the way.
# So the scales have to leave the sum. They can, if they do not depend on $k$:
#
# $$y_{mn} = s_m\,t_n \sum_k q_{mk}\,r_{nk}$$
#
# - one scale for each row of $X$ (**per token**) works;
# - one for each row of $W$ (**per output channel**) works;
# - one for each column of $X$ (per *input* channel) does not: it varies along $k$ and stays inside.
#
# Multiplying by $s_m\,t_n$ afterwards is one cheap pass over $Y$. Is it the same?

# %%
q, r = torch.randint(-127, 128, (4, 64)).double(), torch.randint(-127, 128, (3, 64)).double()
s, t = torch.rand(4).double(), torch.rand(3).double()
inside = (s[:, None] * q) @ (t[:, None] * r).T
outside = s[:, None] * t[None, :] * (q @ r.T)
print(f"largest difference: {float((inside - outside).abs().max()):.0e}, which is fp64 rounding")

# %% [markdown]
# ## 4. Four bits: eight weights to a word
#
# PyTorch has no int4. So eight neighbours along $K$ share one int32 word, the first in the lowest four bits.
# Four bits hold 16 patterns, and they stand for $-8$ to $7$: a pattern above 7 means *minus 16*.

# %%
values = torch.tensor([3, -1, 7, -8, 0, 5, -4, 1])
word = sum((int(v) & 0xF) << (4 * i) for i, v in enumerate(values))
pictures.int4_word(word)

# %% [markdown]
# ## 5. Sparsity: skip what is zero
#
# A single zero saves nothing: tensor cores multiply whole tiles.
# So weights are pruned in **blocks** of 32 x 32. What is left is stored as BSR, *block sparse row*:
#
# - `values`: the blocks that are there, one after another;
# - `col_indices`: the block column of each;
# - `crow_indices`: where each block row begins. Row `r` owns the blocks `crow[r]` up to, not with, `crow[r + 1]`.

# %%
present = torch.rand(8, 8, generator=torch.Generator().manual_seed(3)) < 0.25
present[2] = False
crow = torch.cat([torch.zeros(1, dtype=torch.long), present.sum(1).cumsum(0)])
pictures.bsr_pattern(crow, present.nonzero()[:, 1], 256)

# %% [markdown]
# Block row 2 is empty: its two numbers are equal. No special case, just a loop that runs zero times.

# %% [markdown]
# ## 6. Triton in ten minutes
#
# A Triton kernel is a function that runs many times at once. Each run is a **program**, and works on a **tile**:
# a small block of numbers that it loads, changes and stores as a whole.
#
# A program asks for its number, computes which elements are its own, and goes:

# %%
@triton.jit
def double_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # the elements of this program's tile
    inside = at < n                                      # the last tile may reach beyond the end
    x = tl.load(x_ptr + at, mask=inside, other=0.0)
    tl.store(y_ptr + at, 2 * x, mask=inside)


x = torch.arange(10.0, device=device)
y = torch.empty_like(x)
double_kernel[(triton.cdiv(10, 4),)](x, y, 10, BLOCK=4)  # [grid]: three programs
print(y)

# %% [markdown]
# Four things to take along:
#
# 1. `x_ptr` is the address of element 0. `x_ptr + at` is a tile of addresses.
# 2. `tl.constexpr` parameters are fixed when the kernel is compiled. Tile sizes are, and they are powers of two.
# 3. A `mask` switches lanes off. A masked load gives `other`, a masked store does nothing.
# 4. Forget the mask and you read somebody else's memory. Nothing crashes; the grader will tell you, with the line.
#
# In two dimensions, `[:, None]` spreads a range down and `[None, :]` across. Each axis has a **stride**: how far
# apart neighbours lie. Here is a transpose without moving anything, only by strides:

# %%
@triton.jit
def copy_kernel(x_ptr, y_ptr, stride_row, stride_column, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    tile = tl.load(x_ptr + rows[:, None] * stride_row + columns[None, :] * stride_column)
    tl.store(y_ptr + rows[:, None] * COLUMNS + columns[None, :], tile)


x = torch.arange(8, device=device).view(2, 4)
y = torch.empty(4, 2, dtype=x.dtype, device=device)
copy_kernel[(1,)](x, y, x.stride(1), x.stride(0), ROWS=4, COLUMNS=2)  # strides swapped
print(y)

# %% [markdown]
# ### A matrix product
#
# A program owns one tile of $Y$. It walks along $K$, multiplies two tiles with `tl.dot`, and adds up in fp32.
# All three labs have this shape; only what happens between load and dot differs.

# %%
@triton.jit
def matmul_kernel(
    x_ptr, w_ptr, y_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    pid = tl.program_id(0)
    offs_m = pid // tl.cdiv(N, BLOCK_N) * BLOCK_M + tl.arange(0, BLOCK_M)  # rows of Y
    offs_n = pid % tl.cdiv(N, BLOCK_N) * BLOCK_N + tl.arange(0, BLOCK_N)   # columns of Y
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        at = k + offs_k
        x_inside = (offs_m < M)[:, None] & (at < K)[None, :]
        w_inside = (at < K)[:, None] & (offs_n < N)[None, :]
        x = tl.load(x_ptr + offs_m[:, None] * K + at[None, :], mask=x_inside, other=0.0)
        w = tl.load(w_ptr + at[:, None] + offs_n[None, :] * K, mask=w_inside, other=0.0)  # W is [N, K]: read as [K, N]
        acc = tl.dot(x, w, acc)
    inside = (offs_m < M)[:, None] & (offs_n < N)[None, :]
    tl.store(y_ptr + offs_m[:, None] * N + offs_n[None, :], acc.to(tl.float16), mask=inside)


M, N, K = 40, 48, 100
x, w = (torch.randn(size, K, device=device).half() for size in (M, N))
y = torch.empty(M, N, dtype=torch.float16, device=device)
matmul_kernel[(triton.cdiv(M, 16) * triton.cdiv(N, 16),)](x, w, y, M, N, K, BLOCK_M=16, BLOCK_N=16, BLOCK_K=32)
print(f"largest error: {float((y.double() - x.double() @ w.double().T).abs().max()):.4f}")

# %% [markdown]
# Try it: take the mask off the store, or let `range` begin at `BLOCK_K`, and look at the error.
#
# ### Configs
#
# Tile sizes decide the speed, and nobody can guess the best ones. So a kernel carries a list of them,
# `@triton.autotune(configs=[triton.Config({"BLOCK_M": 64, ...}, num_warps=4, num_stages=3), ...], key=[...])`,
# and Triton times them all. `num_warps` is how many groups of 32 threads share a tile, `num_stages` how many
# steps of a loop are loaded ahead.
#
# ### On to the labs
#
# `w8a8`, `w4a16`, `dds`, in this order. Each is built in small steps, and after each step a cell says
# `check("w8a8", step="load")`. That answer comes from the grader itself: same code, same tests.
# `make grade` in a terminal grades everything you have saved.
