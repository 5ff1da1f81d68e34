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
# The timed weight is 1024 x 1024, in blocks of 32 x 32; correctness is checked on other sizes too. With 80 % of the blocks empty it
# may look like this:

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
# Load the block's column index, then `BLOCK` columns of $X$ from there on. The index counts blocks, not columns.
#
# $M$ is any number of tokens, so rows from `M` on must not be read, and count as zero.
# Columns need no mask: 32 divides $K$.

# %% solution="dds_step_gather"
@triton.jit
def load_x_tile(x_ptr, col_indices_ptr, b, rows, M, stride_xm, stride_xk, BLOCK: tl.constexpr):
    """The columns of x that block b meets: fp16 [len(rows), BLOCK], with zeros for rows from M on."""
    ### BEGIN SOLUTION
    columns = tl.load(col_indices_ptr + b) * BLOCK + tl.arange(0, BLOCK)
    x_ptrs = x_ptr + rows[:, None] * stride_xm + columns[None, :] * stride_xk
    return tl.load(x_ptrs, mask=(rows < M)[:, None], other=0.0)
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
    x_ptr, values_ptr, crow_indices_ptr, col_indices_ptr, block_row, rows, M, stride_xm, stride_xk,
    BLOCK_M: tl.constexpr, BLOCK: tl.constexpr,
):
    """The sum over the blocks of a block row: fp32 [BLOCK_M, BLOCK]."""
    ### BEGIN SOLUTION
    first, last = find_blocks(crow_indices_ptr, block_row)
    acc = tl.zeros((BLOCK_M, BLOCK), dtype=tl.float32)
    for b in range(first, last):
        x = load_x_tile(x_ptr, col_indices_ptr, b, rows, M, stride_xm, stride_xk, BLOCK)
        acc = multiply_block(x, values_ptr, b, acc, BLOCK)
    return acc
    ### END SOLUTION

# %% test="dds_step_loop_check"
check("dds", step="loop")

# %% [markdown]
# ## Step 5: store
#
# Convert and store. The last tile of rows may reach beyond $Y$.

# %% solution="dds_step_store"
@triton.jit
def store_tile(y_ptr, acc, rows, columns, M, stride_ym, stride_yn):
    """Stores acc, fp32 [len(rows), len(columns)], as fp16 into the rows of y below M."""
    ### BEGIN SOLUTION
    y_ptrs = y_ptr + rows[:, None] * stride_ym + columns[None, :] * stride_yn
    tl.store(y_ptrs, acc.to(tl.float16), mask=(rows < M)[:, None])
    ### END SOLUTION

# %% test="dds_step_store_check"
check("dds", step="store")

# %% [markdown]
# ## The kernel
#
# All the pieces are there. Put together, none rewritten, they are a kernel worth 60 points:
#
# 1. With the grid `DDS_MM_grid`, which is given below the kernel, `tl.program_id(0)` counts tiles of rows and block rows, block
#    rows fastest, and `N // BLOCK` block rows make a row of tiles: divide for the tile of rows, take the remainder for the
#    block row. From the one, `rows`; from the other, the 32 columns of $Y$ that this program makes.
# 2. `accumulate(...)`.
# 3. `store_tile(...)`, also when there was no block: $Y$ must be zero there, and nobody else writes it.
#
# They go where `pass` stands. The other `# YOUR CODE HERE`, below `CONFIGS`, is for more configs, later.

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
# The first three have numbers of your own, drawn from your name, and mark themselves. Write your name once, as it stands in the list of
# your class. An answer is a number, or arithmetic such as `2 * 3 / 4`; the cell below it says whether it is right, and if not, what to look at.

# %% [markdown] lang="zh"
# ## 思考题
#
# 前三题的数字因人而异，由你的名字抽出，并且自动批改。请先把名字写一次，与班级名单上的写法一致。答案是一个数，或者 `2 * 3 / 4`
# 这样的算式；下面的检查单元会告诉你对不对，不对时该看哪里。

# %% solution="dds_student"
student = ""
### BEGIN SOLUTION
student = "Ada Lovelace"
### END SOLUTION

# %% [markdown]
# **1. Break-even**

# %% [markdown] lang="zh"
# **1. 盈亏平衡点**

# %% solution="dds_answer_breakeven"
ask("dds", "breakeven")
dds_breakeven = None  # per cent
### BEGIN SOLUTION
dds_breakeven = 100 * (1 - 1.2 * (1 - 0.85))
### END SOLUTION

# %% test="dds_question_breakeven" points=2
check_answer("dds", "breakeven")

# %% [markdown]
# **2. The weight in memory**

# %% [markdown] lang="zh"
# **2. 权重占多少内存**

# %% solution="dds_answer_bytes"
ask("dds", "bytes")
dds_bytes = None  # kB
### BEGIN SOLUTION
dds_bytes = (4096 * 2048 * 0.25 * 2 + 4 * 4096 * 2048 / 1024 * 0.25 + 4 * (4096 / 32 + 1)) / 1e3
### END SOLUTION

# %% test="dds_question_bytes" points=1
check_answer("dds", "bytes")

# %% [markdown]
# **3. An order of magnitude**

# %% [markdown] lang="zh"
# **3. 数量级**

# %% solution="dds_answer_magnitude"
ask("dds", "magnitude")
dds_magnitude = None  # microseconds
### BEGIN SOLUTION
dds_magnitude = 2 * 2 * 4096 * 1024 / 2e6
### END SOLUTION

# %% test="dds_question_magnitude" points=1
check_answer("dds", "magnitude")

# %% [markdown]
# **4. The missing share.** Question 1 took the share $e$ of cuBLAS's rate for fixed. From the ratios of the table's last step at 8192 tokens:
# what is $e$ at each sparsity, why is it not 1, and why does it change?

# %% [markdown] lang="zh"
# **4. 缺掉的那一份。** 第 1 题假设 kernel 的速率是 cuBLAS 的固定份额 $e$。根据上面表格最后一步在 8192 个 token 时的倍数：
# 两种稀疏度下 $e$ 各是多少？它为什么不是 1？为什么会变？

# %% [markdown] answer="dds_question_share" points=2
# From a ratio $r$ at sparsity $s$ follows $e = r\,(1 - s)$, below a quarter here. It is not 1 because a 32-wide block is a
# small tile for a tensor core, X is fetched again by every block row, and the column index delays each fetch. What does not shrink with
# $s$ (reading X, writing Y, the launch) weighs more the emptier W is, so $e$ is smaller at 0.9 than at 0.8.

# %% [markdown] lang="zh"
# 由稀疏度 $s$ 下的倍数 $r$ 可得 $e = r\,(1 - s)$，这里不到四分之一。它不是 1，因为宽 32 的块对 Tensor Core 来说是很小的 tile，
# 每个块行都要重新读取 X，而且每次读取都要先等列号。不随 $s$ 减少的部分（读 X、写 Y、启动）在 W 越空时占比越大，所以 0.9 处的 $e$ 比 0.8 处小。

# %% [markdown]
# **5. Why blocks?** Compare a weight whose zeros lie anywhere (CSR: one column index for each value) with blocks of
# 32 x 32: bytes for indices, loads of $X$, and the instruction that multiplies.

# %% [markdown] lang="zh"
# **5. 为什么要分块？** 把零散布各处的权重（CSR：每个值一个列号）与 32 x 32 的块作比较：索引占多少字节，怎样读取 $X$，用什么指令相乘。

# %% [markdown] answer="dds_question_blocks" points=2
# CSR has a 4-byte index for each 2-byte value, three times the bytes; a block has one index for 1024 values. CSR fetches single elements of X from
# scattered columns; a block needs 32 neighbouring columns, which are wide, coalesced loads. And tensor cores multiply whole tiles,
# so single values are left with ordinary multiply-adds, at a small part of the rate.

# %% [markdown] lang="zh"
# CSR 中每个 2 字节的值都带一个 4 字节的列号，共是值的三倍字节；分块则 1024 个值共用一个列号。CSR 从分散的列里读取 X 的单个元素；一个块需要的是相邻的 32 列，
# 可以用宽的合并访问读取。而且 Tensor Core 乘的是整个 tile，单个的值只能用普通的乘加，速率只有一小部分。

# %% [markdown]
# **6. Uneven rows.** One block row is full (32 blocks), the others hold one block each. What does that do to the time of a launch
# with few tokens, and what could a kernel do about it?

# %% [markdown] lang="zh"
# **6. 不均匀的块行。** 一个块行是满的（32 个块），其余各只有一个块。token 少时，这对一次启动的时间有什么影响？kernel 可以怎么应对？

# %% [markdown] answer="dds_question_uneven" points=2
# A program walks its row's blocks one after another, so the launch lasts as long as the program with 32 blocks while the others are over after
# one; with few tokens there are not enough other programs to fill the gap. Remedies: split long rows among several programs and add their
# parts (atomics or a second pass), start long rows first, or let a fixed number of programs take equal shares of blocks.

# %% [markdown] lang="zh"
# 一个程序依次处理自己块行里的块，所以整次启动要等处理 32 个块的那个程序，而其他程序处理完一个块就结束了；token 少时，没有足够多的其他程序来填补空闲。
# 办法有：把长的块行拆给几个程序，再把各部分相加（原子加，或者第二遍）；先启动长的块行；或者让固定数目的程序平均分配块。

# %% [markdown]
# **7. Predict, then look.** On an H200, weight 1024 x 1024 with 70 % of its blocks empty, 65536 tokens: how many times as fast as cuBLAS fp16 is the reference solution?
# Nothing is marked here: write down what you expect before the next cell shows what was measured.

# %% [markdown] lang="zh"
# **7. 先预测，再看。** 在 H200 上，1024 x 1024 的权重有 70 % 的块是空的，65536 个 token：参考答案是 cuBLAS fp16 的几倍速？
# 这一题不计分：在下一个单元给出实测值之前，先写下你的预期。

# %% solution="dds_prediction"
from grader.notebook.trial import lock, measured, reveal

guess = None  # times as fast as cuBLAS fp16
### BEGIN SOLUTION
guess = 1.5
### END SOLUTION
lock("dds", guess, "times as fast as cuBLAS fp16")

# %%
said = reveal("dds")
entry = measured("dds", "solution", M=65536, sparsity=0.7)[0]
said.against(entry.ratio)
print(f"{entry.time_us:.1f} us, cuBLAS fp16 {entry.cublas_us:.1f} us, with {entry.sparsity:.0%} of the work left out")

# %% [markdown]
# ## Done?
#
# Save this notebook. `make grade` reads the saved file and gives the same answer as the cells above.

# %% [markdown] lang="zh"
# ## 做完了？
#
# 保存这个 notebook。`make grade SUBMISSION=notebooks/zh` 读取保存的文件，给出的结果与上面各单元相同。
