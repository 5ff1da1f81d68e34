# %% [markdown]
# # DDS: multiply what is there, skip the rest
#
# $$Y = X W^\top, \qquad W \text{ in blocks of } 32 \times 32, \text{ most of them zero}$$
#
# - $X$ is dense fp16, $Y$ is dense fp16: *dense = dense x sparse*.
# - $W$ is stored in BSR: only the blocks that are there.
# - **Your kernel**, `DDS_MM`, walks over the blocks of one block row and fetches the part of $X$ that each one needs.
#
# cuBLAS does all the work, zeros included, and does it very well. How many zeros does it take to beat it?

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## A block-sparse weight
#
# The graded weight is 1024 x 1024, 32 x 32 blocks. With 80 % of them empty it may look like this:

# %%
present = torch.rand(32, 32, generator=torch.Generator().manual_seed(0)) < 0.2
present[5] = False
crow = torch.cat([torch.zeros(1, dtype=torch.long), present.sum(1).cumsum(0)])
pictures.bsr_pattern(crow, present.nonzero()[:, 1], 1024)

# %% [markdown]
# Read it by rows. Block row `r` makes 32 columns of $Y$. It owns the blocks `crow[r]` up to, not with, `crow[r + 1]`;
# block `b` meets the columns `32 * col[b]` to `32 * col[b] + 31` of $X$.

# %% [markdown]
# ## The layer around your kernel
#
# This is given. `to_bsr` makes the format, `naive` is the product block by block in plain PyTorch.

# %%
# include solutions/dds.py: BLOCK_SIZE .. BLOCK_SIZE
# include solutions/dds.py: block_norms .. launch

# %% [markdown]
# ## Step 1: find the blocks
#
# Two numbers, both from `crow_indices`. A function may return two values: `return a, b`.

# %% solution="dds_step_find"
@triton.jit
def find_blocks(crow_indices_ptr, block_row):
    """The first block of a block row, and the first block after its last."""
    ### BEGIN SOLUTION
    return tl.load(crow_indices_ptr + block_row), tl.load(crow_indices_ptr + block_row + 1)
    ### END SOLUTION

# %% test="dds_step_find_check"
check("dds", step="find")

# %% [markdown]
# ## Step 2: fetch the part of X that a block needs
#
# Load the block's column index, then `BLOCK` columns of $X$ from there on.

# %% solution="dds_step_gather"
@triton.jit
def load_x_tile(x_ptr, col_indices_ptr, b, rows, stride_xm, stride_xk, BLOCK: tl.constexpr):
    """The columns of x that block b meets: fp16 [len(rows), BLOCK]."""
    ### BEGIN SOLUTION
    columns = tl.load(col_indices_ptr + b) * BLOCK + tl.arange(0, BLOCK)
    return tl.load(x_ptr + rows[:, None] * stride_xm + columns[None, :] * stride_xk)
    ### END SOLUTION

# %% test="dds_step_gather_check"
check("dds", step="gather")

# %% [markdown]
# ## Step 3: one dot
#
# `values[b]` is 32 x 32 numbers in a row of memory: element `(n, k)` of block `b` at `b * 32 * 32 + n * 32 + k`.
# The product needs the block as `[k, n]`. No data has to move for that: load it with rows and columns exchanged.

# %% solution="dds_step_dot"
@triton.jit
def multiply_block(x, values_ptr, b, acc, BLOCK: tl.constexpr):
    """x fp16 [rows, BLOCK], acc fp32 [rows, BLOCK] -> acc + x @ block.T, fp32."""
    ### BEGIN SOLUTION
    r = tl.arange(0, BLOCK)
    block = tl.load(values_ptr + b * BLOCK * BLOCK + r[None, :] * BLOCK + r[:, None])
    return tl.dot(x, block, acc)
    ### END SOLUTION

# %% test="dds_step_dot_check"
check("dds", step="dot")

# %% [markdown]
# ## Step 4: the loop
#
# From the first block to the last, your three functions in a row. The check has a block row without any block.

# %% solution="dds_step_loop"
@triton.jit
def accumulate(
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, block_row, rows, stride_xm, stride_xk,
    BLOCK_M: tl.constexpr, BLOCK: tl.constexpr,
):
    """The sum over the blocks of a block row: fp32 [BLOCK_M, BLOCK]."""
    ### BEGIN SOLUTION
    first, last = find_blocks(crow_indices_ptr, block_row)
    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for b in range(first, last):
        x = load_x_tile(x_ptr, col_indices_ptr, b, rows, stride_xm, stride_xk, BLOCK)
        acc = multiply_block(x, values_ptr, b, acc, BLOCK)
    return acc
    ### END SOLUTION

# %% test="dds_step_loop_check"
check("dds", step="loop")

# %% [markdown]
# ## Step 5: the epilogue
#
# Convert and store. $M$ is any number of tokens, so the last tile of rows may reach beyond $Y$.

# %% solution="dds_step_epilogue"
@triton.jit
def store_tile(y_ptr, acc, rows, columns, M, stride_ym, stride_yn):
    """Stores acc, fp32 [len(rows), len(columns)], as fp16 into the rows of y below M."""
    ### BEGIN SOLUTION
    y_ptrs = y_ptr + rows[:, None] * stride_ym + columns[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=(rows < M)[:, None])
    ### END SOLUTION

# %% test="dds_step_epilogue_check"
check("dds", step="epilogue")

# %% [markdown]
# ## Step 6: masks
#
# The same for reading $X$. Columns need no mask: 32 divides $K$.

# %% solution="dds_step_masks"
@triton.jit
def load_x_masked(x_ptr, rows, columns, M, stride_xm, stride_xk):
    """fp16 [len(rows), len(columns)] of x, with zeros for rows from M on."""
    ### BEGIN SOLUTION
    x_ptrs = x_ptr + rows[:, None] * stride_xm + columns[None, :] * stride_xk
    return tl.load(x_ptrs, mask=(rows < M)[:, None], other=0.0)
    ### END SOLUTION

# %% test="dds_step_masks_check"
check("dds", step="masks")

# %% [markdown]
# ## The kernel
#
# 1. `tl.program_id(0)` counts tiles of rows and block rows, block rows fastest. Which of each is this program's?
# 2. The loop over its blocks, with masked loads of $X$.
# 3. A masked store, also when there was no block: $Y$ must be zero there, and nobody else writes it.

# %% solution="dds_kernel"
# include solutions/dds.py: CONFIGS .. DDS_MM_grid

# %% [markdown]
# This is the grader. Without a GPU it takes about ten seconds.

# %% test="dds_correctness" points=60
check("dds")

# %% [markdown]
# ## Your kernel in its layer
#
# Prune a linear layer, the weakest blocks first, and see what is left:

# %%
torch.manual_seed(0)
linear = torch.nn.Linear(256, 128, bias=False)
layer = SparseLinear.from_linear(linear, sparsity=0.75).to(device)
x = torch.randn(5, 256, device=device).half()
dense = to_dense(layer.values, layer.crow_indices, layer.col_indices, 256).double().cpu()
y, exact = layer(x).double().cpu(), x.double().cpu() @ dense.T
print(f"largest error of your kernel: {float((y - exact).abs().max()):.2g}")
pictures.bsr_pattern(layer.crow_indices.cpu(), layer.col_indices.cpu(), 256)

# %% [markdown]
# ## What your kernel does to memory
#
# The interpreter knows every address that your kernel loads and stores. The next cells run it on a few tiles and count. Nothing is graded.
#
# A program reads only the columns of $X$ that its block row names. Predict first: is every element of $X$ read equally often?

# %%
from grader.notebook import show_memory, show_programs, show_warp

show_memory("dds", program=5)

# %% [markdown]
# Each tile of $Y$ carries the number of its program, in the order in which a GPU starts them. Neighbours in a row gather from the same
# rows of $X$, so these come from DRAM once and from L2 afterwards.

# %%
show_programs("dds")

# %% [markdown]
# A warp loads together, and memory comes in *sectors* of 32 bytes. Neighbouring threads should ask for neighbouring bytes:

# %%
show_warp("dds")

# %% [markdown]
# ## How fast can it get?
#
# Right is 60 points. Fast is the other 40. This is a way that was really walked, one idea a step:
#
# @ladder dds: m1024_n1024_k1024_s90 m1024_n1024_k1024_s80 m8192_n1024_k1024_s90 m8192_n1024_k1024_s80
#
# Each step below has one change, one number to predict and one cell that checks. Predict first: being wrong is free, and a surprise
# teaches most. Then change the kernel above, run its cell, and look again. Your kernel may have taken some of the steps already.
#
# The checks hold no watch. They look at what the compiler made of your kernel for an H200 (the instructions of one turn of the
# loop, the registers, the shared memory), at the grid, and at the bytes that the interpreter counts on a small problem. They are
# worth no points; the clock at the end is.

# %% [markdown]
# ### Faster, step 1: who runs at the same time
#
# Programs start in the order of their ids. If neighbours read the same rows of $X$, one fetches what the others then find in L2.
# The docstring of the kernel names such an order; the other one is easy to write by accident. On a GPU whose L2 holds all of $X$ the clock
# hardly shows it. The model in this check has a smaller one.
#
# @speed dds: order

# %% solution="dds_faster_order"
row_tiles = ...
### BEGIN SOLUTION
row_tiles = 1
### END SOLUTION
predict("dds", "order", row_tiles)

# %% test="dds_faster_order_check"
check("dds", speed="order")

# %% [markdown]
# ### Faster, step 2: tall tiles
#
# Every tile of rows meets every block of its block row, so a block is read by one program for each tile of rows.
#
# @speed dds: tiles

# %% solution="dds_faster_tiles"
programs = ...
### BEGIN SOLUTION
programs = 2048 // 256
### END SOLUTION
predict("dds", "tiles", programs)

# %% test="dds_faster_tiles_check"
check("dds", speed="tiles")

# %% [markdown]
# ### Faster, step 3: loads that run ahead
#
# With `num_stages=1` each turn asks for its tiles and waits. With more, Triton keeps room for several turns in shared memory, and
# asks for the next tiles while one is multiplied.
#
# @speed dds: pipelined

# %% solution="dds_faster_pipelined"
shared_bytes = ...
### BEGIN SOLUTION
shared_bytes = 2 * (128 * 32 + 32 * 32) * 2
### END SOLUTION
predict("dds", "pipelined", shared_bytes)

# %% test="dds_faster_pipelined_check"
check("dds", speed="pipelined")

# %% [markdown]
# ### Faster, step 4: the index a turn early
#
# Which tile of $X$ a turn needs, its column index says, and that is itself a load. Triton can fetch the tile ahead only when it has the
# index. So load the index of the next block in this turn, and carry it over.
#
# @speed dds: prefetch

# %% solution="dds_faster_prefetch"
turns = ...
### BEGIN SOLUTION
turns = 4
### END SOLUTION
predict("dds", "prefetch", turns)

# %% test="dds_faster_prefetch_check"
check("dds", speed="prefetch")

# %% [markdown]
# ### By the clock
#
# **Your levers:** `BLOCK_M`, `num_stages` and `num_warps` in the configs (up to 16), and what the loop loads when.

# %% test="dds_speed" points=40
check_speed("dds")

# %% [markdown]
# ## Questions
#
# **1. Break-even.** Say your kernel does its products at a share $e$ of cuBLAS's rate, and does only those of present
# blocks. From which sparsity on is it faster? Take the ratios of the table's last step at 8192 tokens: what is $e$
# there, and why is it not 1?

# %% [markdown] answer="dds_question_breakeven" points=4
# Dense time 1, ours $(1 - s) / e$: faster from $s = 1 - e$ on. From a ratio $r$ at sparsity $s$ follows $e = r\,(1 - s)$: with the ratios
# measured, $e$ is about 0.15 at 0.9 and 0.23 at 0.8, so break-even comes out at 0.85 from the one and 0.77 from the other
# (measured: 0.74; $e$ rises as the weight fills). It is not 1 because a 32-wide block is a
# small tile for a tensor core, X is fetched again by every block row, the column index delays each fetch, and what does not shrink with
# $s$ (reading X, writing Y, the launch) weighs more the emptier W is; that is why $e$ is smaller at 0.9.

# %% [markdown]
# **2. Why blocks?** Compare a weight whose zeros lie anywhere (CSR: one column index for each value) with blocks of
# 32 x 32: bytes for indices, loads of $X$, and the instruction that multiplies.

# %% [markdown] answer="dds_question_blocks" points=3
# CSR has a 4-byte index for each 2-byte value, three times the bytes; a block has one index for 1024 values. CSR fetches single elements of X from
# scattered columns; a block needs 32 neighbouring columns, which are wide, coalesced loads. And tensor cores multiply whole tiles,
# so single values are left with ordinary multiply-adds, at a small part of the rate.

# %% [markdown]
# **3. Uneven rows.** One block row is full (32 blocks), the others hold one block each. What does that do to the time of a launch
# with few tokens, and what could a kernel do about it?

# %% [markdown] answer="dds_question_uneven" points=3
# A program walks its row's blocks one after another, so the launch lasts as long as the program with 32 blocks while the others are over after
# one; with few tokens there are not enough other programs to fill the gap. Remedies: split long rows among several programs and add their
# parts (atomics or a second pass), start long rows first, or let a fixed number of programs take equal shares of blocks.

# %% [markdown]
# ## Done?
#
# Save this notebook. `make grade` reads the saved file and gives the same answer as the cells above.
