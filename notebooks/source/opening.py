# %% [markdown]
# # Kernels for smaller numbers
#
# A large model spends most of its time in one operation: $Y = XW^\top$.
# This lab makes it cheaper in three ways, one notebook each:
#
# | notebook | the weight is | what gets cheaper |
# |---|---|---|
# | `w8a8` | int8, and so are the activations | the products, and reading the weight |
# | `w4a16` | int4, eight weights to a word | reading the weight |
# | `dds` | mostly empty, in blocks of 32 x 32 | both, where nothing is stored |
#
# You need to know PyTorch. Triton is taught here, in ten warm-ups: you fill in a cell, and the cell after it says whether
# it is right and, if not, what is wrong on which line. Nothing is handed in and there are no points.
# What you write here, you use again in the labs.

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
    print(f"M = {M:4}: fp16 {fp16:7.1f}, int8 weight {w8:7.1f}, int4 weight {w4:7.1f} operations a byte")

# %% [markdown]
# A GPU has a number of its own: what its tensor cores can do while one byte arrives.
# For an H200 that is @bench{fp16_per_second / bytes_per_second:.0f} operations in fp16 (@bench{fp16_per_second / 1e12:.0f} TFLOP/s
# by @bench{bytes_per_second / 1e12:.1f} TB/s), and twice that in int8 (@bench{2 * fp16_per_second / 1e12:.0f} TOP/s: integers
# are no floating point).
#
# - Below it you wait for **memory**: one token, a few tokens. Fewer bytes a weight is less time.
# - Above it you wait for the **tensor cores**: many tokens. Cheaper products are less time.
#
# That is the whole map of this lab. A drawing of it is called a roofline:

# %%
# A second, at best, on the H200 of our benchmarks:
BYTES, FP16 = @bench{bytes_per_second:.6g}, @bench{fp16_per_second:.6g}


def spot(name, M):
    """Where fp16 would be if nothing but the two limits held; times in microseconds."""
    operations, moved = 2 * M * 4096**2, 2 * (2 * M * 4096 + 4096**2)
    best = max(operations / FP16, moved / BYTES) * 1e6
    return pictures.RooflinePoint(name, operations, moved, best, best)


points = [spot(f"M = {M}", M) for M in (1, 16, 64, 512)]
roofs = {"fp16": FP16 / 1e12, "int8": 2 * FP16 / 1e12}
pictures.roofline(points, BYTES / 1e9, roofs, legend="the most that fp16 can do")

# %% [markdown]
# ## 2. Triton
#
# A Triton kernel is a function that runs many times at once. Each run is a **program**, and works on a **tile**:
# a small block of numbers that it loads, changes and stores as a whole.
#
# A program asks for its number, computes which elements are its own, and goes:

# %%
@triton.jit
def double_kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # the elements of this program's tile
    tl.store(y_ptr + at, 2 * tl.load(x_ptr + at))


x = torch.arange(12.0, device=device)
y = torch.empty_like(x)
double_kernel[(3,)](x, y, BLOCK=4)  # [grid]: three programs, numbered 0 to 2
print(y)

# %% [markdown]
# Three things to take along:
#
# 1. `x_ptr` is the address of element 0. `x_ptr + at` is a tile of addresses, and `tl.load` turns it into a tile of numbers.
# 2. `tl.arange(0, BLOCK)` is the tile 0, 1, ..., BLOCK - 1. Sizes of tiles are powers of two, and known when the kernel is
#    compiled: they are `tl.constexpr` parameters.
# 3. A kernel returns nothing; it stores. A helper under `@triton.jit` may return a tile.
#
# ### Warm-up 1: add
#
# The same with two inputs. Replace `pass`, run the cell, run the check.

# %% solution="opening_step_add"
@triton.jit
def add(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    """out = x + y; each program adds BLOCK neighbouring elements."""
    ### BEGIN SOLUTION
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at) + tl.load(y_ptr + at))
    ### END SOLUTION

# %% test="opening_step_add_check"
check("opening", step="add")

# %% [markdown]
# ### Warm-up 2: a mask
#
# Seldom does a size divide into tiles. `triton.cdiv(n, BLOCK)` programs are enough, and the last of them reaches beyond
# the end. A **mask**, a tile of true and false, switches lanes off:
# `tl.load(ptrs, mask=at < n, other=0.0)` gives `other` there and reads nothing, `tl.store(ptrs, x, mask=at < n)` writes nothing.
#
# Forget the mask and you read somebody else's memory. A GPU seldom notices; the checks here do, and tell you the line.

# %% solution="opening_step_mask"
@triton.jit
def add_masked(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out = x + y for n elements, which may end inside the last program's tile."""
    ### BEGIN SOLUTION
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, x + y, mask=at < n)
    ### END SOLUTION

# %% test="opening_step_mask_check"
check("opening", step="mask")

# %% [markdown]
# ### Warm-up 3: a tile with strides
#
# Memory has one dimension. A matrix has two, and a **stride** for each: how far apart neighbours along that axis lie,
# in elements. As in PyTorch:

# %%
x = torch.arange(24).view(4, 6)
print(x.stride(), x.t().stride(), x[:, ::2].stride())

# %% [markdown]
# Two ranges make a tile by broadcasting, as in PyTorch too: `rows[:, None]` goes down, `columns[None, :]` goes across, and
# their sum is two-dimensional. Here `rows` and `columns` are tiles of row and column numbers, given to you.
# Element `(rows[i], columns[j])` of the matrix lies at `rows[i] * stride_row + columns[j] * stride_column`.

# %% solution="opening_step_tile"
@triton.jit
def load_strided(ptr, rows, columns, stride_row, stride_column):
    """The tile [len(rows), len(columns)] of a matrix."""
    ### BEGIN SOLUTION
    return tl.load(ptr + rows[:, None] * stride_row + columns[None, :] * stride_column)
    ### END SOLUTION

# %% test="opening_step_tile_check"
check("opening", step="tile")

# %% [markdown]
# ### Warm-up 4: two masks
#
# Each axis has its end. `rows < row_count` is a mask for the rows, `columns < column_count` one for the columns. Spread
# them like the offsets, and join them with `&`, which binds more tightly than `<`: comparisons need their brackets.

# %% solution="opening_step_masks"
@triton.jit
def load_tile(ptr, rows, columns, row_count, column_count, stride_row, stride_column):
    """load_strided, with zeros for rows from row_count on and for columns from column_count on."""
    ### BEGIN SOLUTION
    inside = (rows < row_count)[:, None] & (columns < column_count)[None, :]
    at = rows[:, None] * stride_row + columns[None, :] * stride_column
    return tl.load(ptr + at, mask=inside, other=0)
    ### END SOLUTION

# %% test="opening_step_masks_check"
check("opening", step="masks")

# %% [markdown]
# ### Warm-up 5: transpose
#
# Now a whole kernel in two dimensions. The grid has two axes: `tl.program_id(0)` is the number of the tile down the rows,
# `tl.program_id(1)` across the columns. A tile is `BLOCK` x `BLOCK`.
#
# Load the tile of $x$ with your `load_tile`; store it so that element $(m, n)$ of $x$ becomes element $(n, m)$ of $y$.
# $y$ is $[N, M]$ and lies row by row, so its element $(n, m)$ is at `n * M + m`.

# %% solution="opening_step_transpose"
@triton.jit
def transpose(x_ptr, y_ptr, M, N, stride_row, stride_column, BLOCK: tl.constexpr):
    """y = x.T for x [M, N] with any strides and y [N, M], row by row."""
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tile = load_tile(x_ptr, rows, columns, M, N, stride_row, stride_column)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(y_ptr + columns[None, :] * M + rows[:, None], tile, mask=inside)
    ### END SOLUTION

# %% test="opening_step_transpose_check"
check("opening", step="transpose")

# %% [markdown]
# ## 3. Quantisation: fewer bits for a number
#
# First the number formats that stay. **fp16** has eleven significant bits and ends at 65504; **bf16** reaches as far as fp32
# and has eight significant bits. A value beyond the end of its type is an **overflow**: a float becomes inf, an integer
# comes round at the other end. In these labs activations are fp16, and sums are kept in fp32 or int32.
#
# Now fewer bits. Take a row of numbers. Find a **scale** $s$ so that the largest fits the largest integer, then round:
#
# $$q = \mathrm{clamp}\big(\mathrm{round}(x / s),\ -128,\ 127\big), \qquad s = \max|x| / 127, \qquad x \approx s\,q$$
#
# For int4 the bounds are $-8$ and $7$, and $s = \max|x| / 7$.
#
# This is called *symmetric*. *Affine* quantisation has a second number, the **zero point** $z$: $x \approx s\,(q - z)$.
# It wastes no levels on a row whose values lie on one side of zero, and zero is exact with it as well, since $z$ is an integer. But in a product each $z$ leaves a
# term to subtract, $\sum_k (q_k - z)\,r_k = \sum_k q_k r_k - z \sum_k r_k$. Symmetric means $z = 0$: no such term.

# %%
torch.manual_seed(1)
row = torch.randn(512)
pictures.quantisation(row, float(row.abs().max() / 127), name="a well-behaved row")

# %% [markdown]
# Now one value is thirty times as large as the average. It sets the scale for everyone:

# %%
row[100] = 30 * row.abs().mean()
pictures.quantisation(row, float(row.abs().max() / 127), name="one outlier")

# %% [markdown]
# The other values now share a few levels in the middle. This is why it matters **who shares a scale**: the whole matrix
# (**per tensor**), a row, or less. One outlier spoils the values that share its scale, and no others.
#
# Weights are quantised once, before the model runs. For activations there are three ways:
#
# - leave them in fp16: **weight-only** quantisation (`w4a16`);
# - find their scales while the model runs, from the values themselves: **dynamic** quantisation (`w8a8`);
# - fix their scales beforehand, from sample inputs: **static** quantisation. Finding such scales is called **calibration**.
#
# How much a model suffers is measured on the model: by its accuracy, or, for a language model, by its **perplexity**, the
# exponential of its average loss per token. Here a kernel has to compute what the format says, and that exactly.
#
# ### A loop, and a reduction
#
# A row may be longer than a tile. So a program walks along it and keeps what it has found so far in a tile of its own.
# This one adds up rows:

# %%
@triton.jit
def row_sums(
    x_ptr, sum_ptr, M, K, stride_row, stride_column, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        tile = load_tile(x_ptr, rows, k + tl.arange(0, BLOCK_K), M, K, stride_row, stride_column)
        total += tl.sum(tile.to(tl.float32), axis=1)  # [BLOCK_M, BLOCK_K] -> [BLOCK_M]
    tl.store(sum_ptr + rows, total, mask=rows < M)


x = torch.ones(20, 100, device=device).half()
sums = torch.empty(20, device=device)
row_sums[(2,)](x, sums, 20, 100, *x.stride(), BLOCK_M=16, BLOCK_K=32)
print(sums)

# %% [markdown]
# ### Warm-up 6: the scales of a row
#
# Your turn: the kernel that finds the scales of activations. `tl.abs`, `tl.max(tile, axis=1)` and `tl.maximum(a, b)` are what
# you need. A row of zeros gets the scale 1, since somebody will divide by it: `tl.where(condition, a, b)`.

# %% solution="opening_step_scales"
@triton.jit
def row_scales(
    x_ptr, scale_ptr, M, K, stride_row, stride_column, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr
):
    """scale[m] = max |x[m, :]| / 127, fp32; 1 for a row of zeros. x is fp16 [M, K].

    Each program has BLOCK_M rows.
    """
    ### BEGIN SOLUTION
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    largest = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        tile = load_tile(x_ptr, rows, k + tl.arange(0, BLOCK_K), M, K, stride_row, stride_column)
        largest = tl.maximum(largest, tl.max(tl.abs(tile.to(tl.float32)), axis=1))
    tl.store(scale_ptr + rows, tl.where(largest > 0, largest / 127, 1.0), mask=rows < M)
    ### END SOLUTION

# %% test="opening_step_scales_check"
check("opening", step="scales")

# %% [markdown]
# ## 4. Which scales a matrix product can live with
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
# - one scale for all of $X$ or $W$ (**per tensor**) works;
# - one scale for each row of $X$ (**per token**) works;
# - one for each row of $W$ (**per output channel**) works;
# - one for each column of $X$ (per *input* channel) does not: it varies along $k$ and stays inside.
#
# In between lies one scale for each **group** of, say, 128 neighbours along $k$. It leaves the sum over its group, not the
# whole: each group's sum is scaled and added to an fp32 accumulator. That costs a multiplication for every element and group,
# and an outlier spoils 128 values instead of a row. Formats with int4 weights often do it; these three labs do not.
#
# Multiplying by $s_m\,t_n$ happens once an element, while the sum is still in registers, before the store. Doing so within
# the kernel, and not in another that reads $Y$ again, is called **fusion**. Is it the same as scaling first?

# %%
q, r = torch.randint(-127, 128, (4, 64)).double(), torch.randint(-127, 128, (3, 64)).double()
s, t = torch.rand(4).double(), torch.rand(3).double()
inside = (s[:, None] * q) @ (t[:, None] * r).T
outside = s[:, None] * t[None, :] * (q @ r.T)
print(f"largest difference: {float((inside - outside).abs().max()):.0e}, which is fp64 rounding")

# %% [markdown]
# ## 5. Four bits: eight weights to a word
#
# PyTorch has the dtype `torch.int4`, and no operations on it. So eight neighbours along $K$ share one int32 word, the first
# in the lowest four bits.
# Four bits hold 16 patterns, and they stand for $-8$ to $7$: a pattern above 7 means *minus 16*.

# %%
values = torch.tensor([3, -1, 7, -8, 0, 5, -4, 1])
word = sum((int(v) & 0xF) << (4 * i) for i, v in enumerate(values))
pictures.int4_word(word)

# %% [markdown]
# ### Warm-up 7: pack
#
# The cell above did it with Python's numbers; do it with a tile. `q` is `[words, 8]`: row `i` becomes word `i`.
# You need `&`, `<<`, `tl.arange(0, 8)` spread over the rows, and `tl.sum(..., axis=1)`.

# %% solution="opening_step_pack"
@triton.jit
def pack(q):
    """int32 [words, 8], values -8 to 7 -> int32 [words]; element i in bits 4 * i to 4 * i + 3."""
    ### BEGIN SOLUTION
    return tl.sum((q & 0xF) << (4 * tl.arange(0, 8))[None, :], axis=1)
    ### END SOLUTION

# %% test="opening_step_pack_check"
check("opening", step="pack")

# %% [markdown]
# ### Warm-up 8: unpack
#
# And back. `(word >> 4 * i) & 0xF` gives 0 to 15: the sign is lost. Shift element `i` *left* first, until its top bit is the
# word's top bit, then right by 28. On a signed integer `>>` copies the sign bit.

# %% solution="opening_step_unpack"
@triton.jit
def unpack(words):
    """int32 [words] -> int32 [words, 8], values -8 to 7: the inverse of pack."""
    ### BEGIN SOLUTION
    return (words[:, None] << (28 - 4 * tl.arange(0, 8))[None, :]) >> 28
    ### END SOLUTION

# %% test="opening_step_unpack_check"
check("opening", step="unpack")

# %% [markdown]
# ## 6. Sparsity: skip what is zero
#
# A single zero saves nothing in a dense product: tensor cores multiply whole tiles. (Recent ones have a mode for 2:4 sparsity, two
# zeros in every four neighbours; no more and no fewer.) So here weights are pruned in **blocks** of 32 x 32. What is left is stored
# as BSR, *block sparse row*:
#
# - `values`: the blocks that are there, one after another;
# - `col_indices`: the block column of each;
# - `crow_indices`: where each block row begins. Row `r` owns the blocks `crow[r]` up to, not with, `crow[r + 1]`.

# %%
present = torch.rand(8, 8, generator=torch.Generator().manual_seed(3)) < 0.25
present[2] = False
crow = torch.cat([torch.zeros(1, dtype=torch.long), present.sum(1).cumsum(0)])
print("crow_indices:", crow.tolist())
print("empty block rows:", (crow.diff() == 0).nonzero()[:, 0].tolist())
pictures.bsr_pattern(crow, present.nonzero()[:, 1], 256)

# %% [markdown]
# Where a block row is empty, its two numbers are equal. No special case, just a loop that runs zero times.
#
# ### Warm-up 9: a sparse matrix times a vector
#
# Program `r` owns block row `r`: `BLOCK` elements of $y$. It loads `crow_indices[r]` and `crow_indices[r + 1]`, each a single
# number: `tl.load(crow_indices_ptr + r)`. For each block `b` between them it loads
#
# - the block, `BLOCK` x `BLOCK` numbers row by row, from `values_ptr + b * BLOCK * BLOCK` on;
# - `BLOCK` elements of $x$, from `BLOCK * col_indices[b]` on;
#
# and adds up `tl.sum(block * x[None, :], axis=1)`. Sizes fit, so no masks.

# %% solution="opening_step_bsr"
@triton.jit
def sparse_times_vector(
    values_ptr, crow_indices_ptr, col_indices_ptr, x_ptr, y_ptr, BLOCK: tl.constexpr
):
    """y = W x for W in BSR and fp32 vectors x and y; each program makes one block row."""
    ### BEGIN SOLUTION
    row = tl.program_id(0)
    inner = tl.arange(0, BLOCK)
    y = tl.zeros((BLOCK,), dtype=tl.float32)
    for b in range(tl.load(crow_indices_ptr + row), tl.load(crow_indices_ptr + row + 1)):
        block = tl.load(values_ptr + b * BLOCK * BLOCK + inner[:, None] * BLOCK + inner[None, :])
        x = tl.load(x_ptr + tl.load(col_indices_ptr + b) * BLOCK + inner)
        y += tl.sum(block * x[None, :], axis=1)
    tl.store(y_ptr + row * BLOCK + inner, y)
    ### END SOLUTION

# %% test="opening_step_bsr_check"
check("opening", step="bsr")

# %% [markdown]
# ## 7. A matrix product
#
# A program owns one tile of $Y$. It walks along $K$, multiplies two tiles with `tl.dot`, and adds up in fp32.
# All three labs have this shape; only what happens between load and dot differs.
#
# ### Warm-up 10: the product
#
# 1. *Which tile?* The grid has one axis here, and counts tiles row by row. With `tiles_n = tl.cdiv(N, BLOCK_N)` tiles in a row of
#    tiles, program `pid` has the row of tiles `pid // tiles_n` and the column of tiles `pid % tiles_n`. From them, `rows` and `columns`.
# 2. *The sum* begins as `tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)`.
# 3. *The loop* has `depth = k + tl.arange(0, BLOCK_K)`. The tile of $X$ is `load_tile` with `rows` and `depth`. The tile of $W$ must be
#    `[BLOCK_K, BLOCK_N]`, and $W$ is stored as $[N, K]$: element $(k, n)$ of its transpose lies at `k + n * K`, so the
#    strides are 1 and `K`. Then `acc = tl.dot(x, w, acc)`.
# 4. *The store*: `acc.to(tl.float16)`, at `rows[:, None] * N + columns[None, :]`, with a mask for both ends.
#
# $X$, $W$ and $Y$ lie row by row. Tails: `load_tile` gives zeros beyond an end, and zeros add nothing to a sum.

# %% solution="opening_step_product"
@triton.jit
def multiply(
    x_ptr, w_ptr, y_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """y = x @ w.T for x fp16 [M, K], w fp16 [N, K] and y fp16 [M, N], all of them row by row."""
    ### BEGIN SOLUTION
    pid = tl.program_id(0)
    tiles_n = tl.cdiv(N, BLOCK_N)
    rows = pid // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = pid % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        depth = k + tl.arange(0, BLOCK_K)
        x = load_tile(x_ptr, rows, depth, M, K, K, 1)
        w = load_tile(w_ptr, depth, columns, K, N, 1, K)
        acc = tl.dot(x, w, acc)
    inside = (rows < M)[:, None] & (columns < N)[None, :]
    tl.store(y_ptr + rows[:, None] * N + columns[None, :], acc.to(tl.float16), mask=inside)
    ### END SOLUTION

# %% test="opening_step_product_check"
check("opening", step="product")

# %% [markdown]
# It is a real kernel. Launch it yourself, with one program a tile:

# %%
M, N, K = 40, 48, 100
x, w = (torch.randn(size, K, device=device).half() for size in (M, N))
y = torch.empty(M, N, dtype=torch.float16, device=device)
programs = triton.cdiv(M, 16) * triton.cdiv(N, 16)
multiply[(programs,)](x, w, y, M, N, K, BLOCK_M=16, BLOCK_N=16, BLOCK_K=32)
print(f"largest error: {float((y.double() - x.double() @ w.double().T).abs().max()):.4f}")

# %% [markdown]
# Try it: let `range` begin at `BLOCK_K`, or leave `acc` out of `tl.dot`, and look at the error. The check names both.
#
# ### Configs
#
# Tile sizes decide the speed, and nobody can guess the best ones. So a kernel carries a list of them,
# `@triton.autotune(configs=[triton.Config({"BLOCK_M": 64, ...}, num_warps=4, num_stages=3), ...], key=[...])`,
# and Triton times them all. `num_warps` is how many groups of 32 threads share a tile. With `num_stages=3` the loads of a loop
# run up to two turns ahead of the products: `num_stages - 1` tiles are on their way while one is multiplied.
#
# ### On to the labs
#
# `w8a8`, `w4a16`, `dds`, in this order. Each is built in small steps like these, and put together from them, and after each step
# a cell says `check("w8a8", step="load")`. That answer comes from the grader itself: same code, same tests.
# `make grade` in a terminal grades everything you have saved.
