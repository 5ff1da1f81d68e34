# %% [markdown]
# # GPTQ: the weights of real checkpoints
#
# *A bonus lab. Its points do not count towards the 300 of the course: you lose nothing by skipping it. Do W4A16 first.*
#
# $$y_{mn} = \sum_k x_{mk}\,w_{kn}, \qquad w_{kn} = s_{gn}\,\bigl(q_{kn} - (z_{gn} + 1)\bigr), \qquad g = \lfloor k / \text{group size} \rfloor$$
#
# - The weight is int4 as in W4A16, eight to a word, but **unsigned**: $q$ is 0 to 15.
# - In each column, neighbours along $K$, mostly 128 of them, are a **group**: they share a **scale** $s$ and a **zero point**.
# - Zero points are packed too, eight columns to a word, and stored **minus one**.
#
# Thousands of quantised models are published in this format. At the end your layer loads a state dict in it.

# %% [markdown] lang="zh"
# # GPTQ：真实模型文件里的权重
#
# **这是附加实验，分数不计入课程的 300 分，不做也没有任何损失。请先完成 W4A16。**
#
# $$y_{mn} = \sum_k x_{mk}\,w_{kn}, \qquad w_{kn} = s_{gn}\,\bigl(q_{kn} - (z_{gn} + 1)\bigr), \qquad g = \lfloor k / \text{group size} \rfloor$$
#
# - 权重与 W4A16 一样是 int4，八个拼成一个 32 位字，但**没有符号**：$q$ 的取值是 0 到 15。
# - 在每一列里，沿 $K$ 相邻的若干个权重（多数是 128 个）是一**组**（group），共用一个 **scale** $s$ 和一个**零点**（zero point）。
# - 零点也要打包，八列拼成一个字，而且存的是**减一之后的值**。
#
# 成千上万个量化模型就是以这种格式发布的。最后，你的层会读入一份这种格式的 state dict。

# %%
# include notebooks/source/parts/setup.py

# %% [markdown]
# ## How fine should a scale be?
#
# Four bits are sixteen levels. Which weights share them? The next cell quantises one weight in eight ways: the levels are spread over the
# whole tensor, over a column (an output channel), over groups of 128 and of 32 along $K$, each **symmetric** around zero
# ($q$ of -7 to 7, a scale) and **asymmetric** (from the smallest to the largest value: a scale and a zero point).
#
# The weight is random, with the properties of real ones: columns of different magnitude, a few large entries, and columns whose
# values are mostly on one side of zero. Predict: which of the two helps more, finer groups or zero points?

# %% [markdown] lang="zh"
# ## scale 的粒度应该多细？
#
# 四位只有十六个取值。哪些权重共用它们？下一个单元用八种方法量化同一个权重：让这些取值覆盖整个张量、一列（一个输出通道）、
# 沿 $K$ 的 128 个一组或 32 个一组；每种又分**对称**（以零为中心，$q$ 从 -7 到 7，只有 scale）和**非对称**（从最小值到最大值，有 scale 和零点）。
#
# 权重是随机的，但带有真实权重的特点：各列大小不同，有少数很大的元素，还有一些列偏向一侧。先预测：更细的组和零点，哪一个帮助更大？

# %%
torch.manual_seed(0)
K, N = 1024, 256
weight = torch.randn(K, N) * torch.logspace(-0.5, 0.5, N)
weight += 0.7 * (torch.arange(N) % 4 == 0) * weight.std(dim=0)
weight[torch.randint(K, (200,)), torch.randint(N, (200,))] *= 8


def rounding_error(w, rows, columns, symmetric):
    """Relative error of int4 where `rows` by `columns` weights share a scale."""
    blocks = w.view(w.shape[0] // rows, rows, w.shape[1] // columns, columns)
    if symmetric:
        scale = blocks.abs().amax(dim=(1, 3), keepdim=True) / 7
        again = (blocks / scale).round().clamp(-8, 7) * scale
    else:
        low, high = (extreme(blocks, dim=(1, 3), keepdim=True) for extreme in (torch.amin, torch.amax))
        scale = (high - low).clamp(min=1e-8) / 15
        zero = (-low / scale).round()
        again = ((blocks / scale).round() + zero).clamp(0, 15).sub(zero) * scale
    return float((again - blocks).norm() / w.norm())


sharing = {"tensor": (K, N), "channel": (K, 1), "group of 128": (128, 1), "group of 32": (32, 1)}
errors = {
    (name, symmetric): rounding_error(weight, *shape, symmetric)
    for name, shape in sharing.items() for symmetric in (True, False)
}
print(f"{'one scale for a':16} {'symmetric':>10} {'zero point':>11} {'bits per weight, with zero point':>32}")
for name, (rows, columns) in sharing.items():
    bits = 4 + 20 / (rows * columns)
    print(f"{name:16} {errors[name, True]:>10.1%} {errors[name, False]:>11.1%} {bits:>32.3f}")

# %%
from matplotlib import pyplot as plt

figure, axes = plt.subplots(figsize=(7, 2.8))
for place, symmetric in ((-0.2, True), (0.2, False)):
    heights = [100 * errors[name, symmetric] for name in sharing]
    bars = axes.bar([i + place for i in range(len(sharing))], heights, 0.38, label="symmetric" if symmetric else "with zero points")
    axes.bar_label(bars, fmt="%.0f")
axes.margins(y=0.12)  # the labels have room
axes.set_xticks(range(len(sharing)), [f"per {name}" for name in sharing])
axes.set_ylabel("error of the weight, %")
axes.legend()
plt.show()

# %% [markdown]
# Groups help more here: compare both with the symmetric channel. A large entry makes the levels coarse for all weights that share its
# scale: a tensor, a column, or 128 weights. Zero points help where values are mostly on one side of zero, where a symmetric scale
# leaves some of its levels unused. Both cost little: groups of 128 with zero points take $4 + 20/128$ bits per weight, 3.4 % more
# than one scale and zero point per column.
#
# GPTQ, the method, adds one idea to rounding: it goes through the rows of the weight along $K$, and compensates the error of each row
# in the rows still to come, weighted by real inputs. The format is the same, so your kernel need not know.
#
# ## One word of each kind
#
# A word of `qweight` holds eight neighbours along $K$ of one column, a word of `zeros` the zero points of eight neighbouring
# columns. In both the first is in the lowest four bits. Nothing has a sign:

# %% [markdown] lang="zh"
# 在这里，分组的帮助更大：把两者都与对称的逐列（channel）那一项比较。一个很大的元素会毁掉与它共用 scale 的所有权重的取值：可能是整个张量、
# 一列，或者只有 128 个。零点照顾偏向一侧的权重：对称的 scale 在那里会空着一部分取值。两者代价都不大：128 个一组加零点，
# 每个权重 $4 + 20/128$ 位，只比每列一个 scale 和一个零点多 3.4 %。
#
# GPTQ 这个方法比就近取整多了一个想法：沿 $K$ 一行一行地量化，并参照真实的输入，把每一行的误差补偿到后面还没量化的行里。
# 格式是一样的，你的 kernel 分辨不出来。
#
# ## 两种打包字各举一例
#
# `qweight` 的一个字里是同一列沿 $K$ 相邻的八个权重，`zeros` 的一个字里是相邻八列的零点。两者都是第一个放在最低四位，都没有符号：

# %%
qweight_word, zeros_word = 0xE9035A7F, 0xF7880765
print("q of k = 0 to 7:          ", [(qweight_word >> 4 * i) & 0xF for i in range(8)])
print("subtracted for n = 0 to 7:", [((zeros_word >> 4 * i) & 0xF) + 1 for i in range(8)])

# %% [markdown]
# Look at the last zero point: stored as 15, it is 16. It does not wrap around to 0.
#
# ## The layer around your kernel
#
# This is given. `from_linear` rounds; `load_state_dict` takes a checkpoint's layer.

# %% [markdown] lang="zh"
# 看最后一个零点：存的是 15，实际是 16。它不会绕回 0。
#
# ## kernel 所在的层
#
# 这一部分已经写好。`from_linear` 做就近取整，`load_state_dict` 可以读入模型文件里的一层。

# %%
# include solutions/gptq.py: quantise .. launch

# %% [markdown]
# ## Two functions that you know
#
# They are given, so run the cell. `load_tile` serves $X$, the words of `qweight` and, with a row number for each $k$, the scales.

# %% [markdown] lang="zh"
# ## 两个熟悉的函数
#
# 这里直接给出，运行这个单元即可。`load_tile` 可以读 $X$，也可以读 `qweight` 的字；给每个 $k$ 一个行号，还可以读 scale。

# %%
# include notebooks/source/parts/load_tile.py


# include notebooks/source/parts/store_tile.py

# %% [markdown]
# ## Step 1: unpack words
#
# As in W4A16, from `[words, columns]` to `[8 * words, columns]` in the order of $K$, and simpler: no sign.

# %% [markdown] lang="zh"
# ## 第 1 步：拆包
#
# 与 W4A16 一样，从 `[words, columns]` 变成 `[8 * words, columns]`，按 $K$ 的顺序排列；而且更简单：没有符号。

# %% solution="gptq_step_unpack"
@triton.jit
def unpack_words(words):
    """int32 [W, columns] -> int32 [8 * W, columns], values 0 to 15; W is words.shape[0]."""
    ### BEGIN SOLUTION
    q = (words[:, None, :] >> (4 * tl.arange(0, 8))[None, :, None]) & 0xF
    return tl.reshape(q, (8 * words.shape[0], words.shape[1]))
    ### END SOLUTION

# %% test="gptq_step_unpack_check"
check("gptq", step="unpack")

# %% [markdown]
# ## Step 2: zero points
#
# For row numbers `depth` along $K$ (any, also beyond `K`) and `columns`, return the number that is subtracted, 1 to 16. The group of
# $k$ is `k // group_size`, and `zeros` is `[K / group_size, N / 8]`, word `(g, j)` at `g * stride_zg + j * stride_zn`. Load nothing
# where $k \ge K$ or the column is `N` or more; what you return there does not matter.

# %% [markdown] lang="zh"
# ## 第 2 步：零点
#
# 给定沿 $K$ 的行号 `depth`（可以是任意行，也可能超出 `K`）和 `columns`，返回要减去的数，1 到 16。$k$ 所在的组是 `k // group_size`；
# `zeros` 的形状是 `[K / group_size, N / 8]`，字 `(g, j)` 位于 `g * stride_zg + j * stride_zn`。
# $k$ 不小于 `K`、列不小于 `N` 的地方什么都不要读；那里返回什么都无所谓。

# %% solution="gptq_step_zeros"
@triton.jit
def load_zeros(zeros_ptr, depth, columns, group_size, K, N, stride_zg, stride_zn):
    """The zero points of rows `depth` and `columns`: int32 [len(depth), len(columns)], 1 to 16."""
    ### BEGIN SOLUTION
    inside = (depth < K)[:, None] & (columns < N)[None, :]
    at = (depth // group_size)[:, None] * stride_zg + (columns // 8)[None, :] * stride_zn
    words = tl.load(zeros_ptr + at, mask=inside, other=0)
    return ((words >> (4 * (columns % 8))[None, :]) & 0xF) + 1
    ### END SOLUTION

# %% test="gptq_step_zeros_check"
check("gptq", step="zeros")

# %% [markdown]
# ## Step 3: weights
#
# Subtract, then scale. $q - (z + 1)$ is a small integer, exact in fp16, so $w$ is rounded once. $q s - (z + 1) s$ in fp16 is
# the same number on paper, but rounds three times: both terms may be large while their difference is small.

# %% [markdown] lang="zh"
# ## 第 3 步：权重
#
# 先减，再乘 scale。$q - (z + 1)$ 是小整数，fp16 能精确表示，所以 $w$ 只舍入一次。用 fp16 算 $q s - (z + 1) s$，纸面上是同一个数，
# 却要舍入三次：两项都很大，而差很小。

# %% solution="gptq_step_weight"
@triton.jit
def make_weights(q, zeros, scales):
    """q and zeros int32, scales fp16, all [depth, columns] -> fp16 [depth, columns]."""
    ### BEGIN SOLUTION
    return (q - zeros).to(tl.float16) * scales
    ### END SOLUTION

# %% test="gptq_step_weight_check"
check("gptq", step="weight")

# %% [markdown]
# ## Step 4: the loop
#
# In each iteration load a tile of $X$, the words for the same k, and for each row of the tile the scales and the zero points of its
# group. A tile may hold several groups, or a part of one; `scales` is `[K / group_size, N]`, and `load_tile` takes any row numbers.

# %% [markdown] lang="zh"
# ## 第 4 步：循环
#
# 读 $X$ 的一个 tile、与它对应的字，再为 tile 的每一行读出它那一组的 scale 和零点。一个 tile 里可能有好几组，也可能只有一组的一部分；
# `scales` 的形状是 `[K / group_size, N]`，`load_tile` 接受任意行号。

# %% solution="gptq_step_loop"
@triton.jit
def accumulate(
    x_ptr, qweight_ptr, scales_ptr, zeros_ptr, rows, columns, M, N, K, group_size,
    stride_xm, stride_xk, stride_wk, stride_wn, stride_sg, stride_sn, stride_zg, stride_zn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):
    """The sum of one tile: fp32 [BLOCK_M, BLOCK_N]."""
    ### BEGIN SOLUTION
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        depth = k + tl.arange(0, BLOCK_K)
        x = load_tile(x_ptr, rows, depth, M, K, stride_xm, stride_xk)
        words = load_tile(qweight_ptr, k // 8 + tl.arange(0, BLOCK_K // 8), columns, K // 8, N, stride_wk, stride_wn)
        scales = load_tile(scales_ptr, depth // group_size, columns, K // group_size, N, stride_sg, stride_sn)
        zeros = load_zeros(zeros_ptr, depth, columns, group_size, K, N, stride_zg, stride_zn)
        acc = tl.dot(x, make_weights(unpack_words(words), zeros, scales), acc)
    return acc
    ### END SOLUTION

# %% test="gptq_step_loop_check"
check("gptq", step="loop")

# %% [markdown]
# ## The kernel
#
# `rows` and `columns` from `pid` as in W4A16, `accumulate(...)`, fp16, `store_tile(...)`. They go where `pass` stands.
# Every other `# YOUR CODE HERE` (configs, helpers, a decorator, parameters of your own) is for later: leave them empty. Leave `SPLIT_K`
# alone, too.

# %% [markdown] lang="zh"
# ## kernel
#
# 与 W4A16 一样由 `pid` 得出 `rows` 和 `columns`，然后 `accumulate(...)`，转成 fp16，再 `store_tile(...)`。写在 `pass` 的位置。
# 其他的 `# YOUR CODE HERE`（config、辅助函数、装饰器、自己的参数）都留到以后，现在空着。
# `SPLIT_K` 先不用管。

# %% solution="gptq_kernel"
# include solutions/gptq.py: CONFIGS .. GPTQ_MM_grid

# %% [markdown]
# This is the grader.

# %% [markdown] lang="zh"
# 这就是评分程序。

# %% test="gptq_correctness" points=60
check("gptq")

# %% [markdown]
# ## Your kernel in its layer

# %% [markdown] lang="zh"
# ## 把你的 kernel 放进层里

# %%
torch.manual_seed(0)
linear = torch.nn.Linear(256, 64, bias=False)
x = torch.randn(5, 256, device=device).half()
exact = x.double().cpu() @ linear.weight.detach().double().T
for group_size in (-1, 128, 32):
    layer = GPTQLinear.from_linear(linear, group_size).to(device)
    error = float((layer(x).double().cpu() - exact).norm() / exact.norm())
    size = sum(tensor.numel() * tensor.element_size() for tensor in layer.state_dict().values())
    print(f"groups of {layer.group_size:3}: error {error:.1%}, {size} bytes instead of {linear.weight.numel() * 2}")

# %% [markdown]
# Finer groups gain nothing here, and cost bytes: `nn.Linear` starts with uniform weights, and the largest of 32 is about as large as
# the largest of 256. Groups pay where a few weights are much larger than the rest, as in the matrix of the first cells.
#
# A layer of a checkpoint has these names. `load_state_dict` is all it takes; `g_idx`, which names the group of each $k$, must be the
# plain order (checkpoints "with act-order" have another, and the layer says so). There are two formats with these names and shapes:
# `gptq` stores a zero point minus one, `gptq_v2` as it is. The checkpoint's `quantize_config.json` says which one it is; pass it as
# `checkpoint_format`, and the layer rejects what it would read wrongly:

# %% [markdown] lang="zh"
# 这里分组更细并没有好处，只是多占字节：`nn.Linear` 的初始权重是均匀分布的，32 个之中的最大值与 256 个之中的最大值差不多大。
# 少数权重远大于其余时，分组才划算，开头几个单元里的矩阵就是这样。
#
# 模型文件里的一层就是这些名字，用 `load_state_dict` 即可读入；`g_idx` 给出每个 $k$ 属于哪一组，必须是普通的顺序
# （带 “act-order” 的模型文件用另一种顺序，这时层会明确告诉你）。名字和形状相同的格式有两种：`gptq` 存的是零点减一，`gptq_v2` 存的就是零点。
# 是哪一种，写在模型文件的 `quantize_config.json` 里；把它作为 `checkpoint_format` 传进去，层遇到会读错的格式就会拒绝：

# %%
checkpoint = {**layer.state_dict(), "g_idx": torch.arange(256, dtype=torch.int32) // 32}
print({name: (str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)) for name, tensor in checkpoint.items()})
loaded = GPTQLinear(256, 64, group_size=32).to(device)
loaded.load_state_dict(checkpoint)
print("the same output:", torch.equal(loaded(x), layer(x)))

# %% [markdown]
# ## How fast can it get?
#
# There are hardly more bytes than in W4A16, so the aim is the same: groups must cost almost nothing. Step 1 is the published split-K
# kernel in this lab's contract. One of the later steps made nothing faster: step 3.
#
# @ladder gptq: m1_n4096_k4096 m16_n4096_k4096 m64_n4096_k4096
#
# A step that your kernel has taken already says so: the one put together from this notebook's steps loads whole words and subtracts
# integers. Each step below has one change, one number to predict and one cell that checks. The checks measure no time: they look at the launch, at what the
# compiler made of your kernel for an H200, and at the bytes that a small launch asks for. They are worth no points; the clock at the end is.

# %% [markdown] lang="zh"
# ## 能快到什么程度？
#
# 字节数与 W4A16 相差无几，所以目标相同；分组的开销应当小到几乎没有。
# 第 1 步是公开发表的 split-K kernel，只是换成了本实验的接口。后面的步骤里，没有变快的也照实写明：第 3 步。
#
# @ladder gptq: m1_n4096_k4096 m16_n4096_k4096 m64_n4096_k4096
# | 换成本实验接口的、公开发表的 split-K kernel：16 x 32 的 tile，深 128，K 切成四段，流水线三级
# | 一个字只读一次；一个 tile 只在一组里时，每列只读一个 scale 和一个零点
# | 用 (q - (z + 1)) s 代替 q s - (z + 1) s
# | 一个 tile 只在一组里时，把 scale 乘到和上
# | 乘积转置过来算，让权重从寄存器进入，用到哪里拆到哪里
#
# 你的 kernel 已经做到的步骤，检查会直接说明：按这个 notebook 的步骤写出来的 kernel 已经整字读取、先做整数减法。
# 下面每一步都有一处改动、一个要预测的数和一个检查单元。这些检查不计时：它们看的是启动参数、编译器为 H200 把你的 kernel 编译成了什么，
# 以及一次小规模启动要读多少字节。它们不计分，计分的是最后的计时。

# %% [markdown]
# ### Faster, step 1: whole words
#
# Eight weights share a word. A kernel that loads a word for each of them, as the published one does, loads it eight times. Load `[BLOCK_K // 8, BLOCK_N]` words and unpack each in registers. A tile along $K$ that lies in one group needs one scale and one zero point per column, as the published kernel has them; other tiles need a scale and a word of zeros for each word.
#
# @speed gptq: words

# %% [markdown] lang="zh"
# ### 加速第 1 步：整字读取
#
# 八个权重共用一个字。如果 kernel 像公开发表的那样，为每个权重各读一次，同一个字就要读八次。
# 请读 `[BLOCK_K // 8, BLOCK_N]` 个字，在寄存器里拆开。如果一个 tile 沿 $K$ 完全落在一组里，每列只需要一个 scale 和一个零点，公开发表的 kernel 就是这样做的；
# 其他 tile 则每个字读一次 scale 和零点所在的字。
#
# @speed gptq: words | M = 16、N = 128、K = 512 时，做完这一步之后，一次启动的所有读取在 qweight 上总共要多少字节？

# %% solution="gptq_faster_words"
read = ...
### BEGIN SOLUTION
read = 512 // 8 * 128 * 4
### END SOLUTION
predict("gptq", "words", read)

# %% test="gptq_faster_words_check"
check("gptq", speed="words")

# %% [markdown]
# ### Faster, step 2: subtract integers
#
# $q\,s - (z + 1)\,s$ converts $q$ and the zero point, multiplies both and subtracts, as the published kernel does, in fp16: each product is rounded, and so is the difference. In fp32 no bits are lost, for twice the instructions. $(q - (z + 1))\,s$
# subtracts integers, which is exact, so fp16 will do for what is left: one conversion of an integer and one multiplication.
#
# @speed gptq: zeros

# %% [markdown] lang="zh"
# ### 加速第 2 步：先做整数减法
#
# $q\,s - (z + 1)\,s$ 要把 $q$ 和零点都转换、都乘一遍，再相减；公开发表的 kernel 就是这样做的，用的是 fp16：每个乘积、每次相减都要舍入；用 fp32 不丢位，但指令多一倍。$(q - (z + 1))\,s$ 先做整数减法，这是精确的，
# 剩下的用 fp16 就够：一次整数转换、一次乘法。
#
# @speed gptq: zeros | 做完这一步之后，循环每拆出一个权重，会用几条浮点指令？矩阵乘和整数的转换不算；一条指令同时处理两个 fp16 数时，每个数算半条。

# %% solution="gptq_faster_zeros"
instructions = ...
### BEGIN SOLUTION
instructions = 0.5 + 0.5  # in fp16 for two weights at a time: a subtraction of zero point and constant, a multiplication by the scale
### END SOLUTION
predict("gptq", "zeros", instructions)

# %% test="gptq_faster_zeros_check"
check("gptq", speed="zeros")

# %% [markdown]
# ### Faster, step 3: scale the sum
#
# In a tile along $K$ that lies in one group, all products of a column have the scale as a common factor. Scale their sum, in fp32, instead of
# the weights: there are fewer multiplications, and no weight is rounded.
#
# @speed gptq: groups

# %% [markdown] lang="zh"
# ### 加速第 3 步：把 scale 乘到和上
#
# 如果一个 tile 沿 $K$ 完全落在一组里，同一列的所有乘积都以 scale 为公因子。不必给每个权重乘 scale，用 fp32 把和乘上 scale 就够了：
# 乘法更少，也没有权重被舍入。
#
# @speed gptq: groups | M = 16 时，做完这一步之后，循环每拆出一个权重，会用几条浮点指令？算法同上；乘上 scale 再加进累加器，算一条指令。

# %% solution="gptq_faster_groups"
instructions = ...
### BEGIN SOLUTION
instructions = 0.5 + (16 + 4) / 128  # the subtraction; of BLOCK_K weights of a column BLOCK_M sums, and four threads that convert its scale
### END SOLUTION
predict("gptq", "groups", instructions)

# %% test="gptq_faster_groups_check"
check("gptq", speed="groups")

# %% [markdown]
# ### Faster, step 4: operand order
#
# As in W4A16: wgmma can take its first operand from registers, its second only from shared memory. Make the weight the first operand,
# $Y^T = W X^T$, and let each thread unpack just the nibbles that it multiplies. The bits `0x6400 + u` are the number $1024 + u$ in
# fp16. Put the zero point into $u$, and one subtraction serves two weights.
#
# Which lane of a warp holds which nibble is drawn in step 5 of `w4a16.ipynb`, with the PTX: here it is the same.
#
# @speed gptq: registers

# %% [markdown] lang="zh"
# ### 加速第 4 步：操作数的顺序
#
# 与 W4A16 相同：wgmma 的第一个操作数可以来自寄存器，第二个只能来自共享内存。让权重在前，$Y^T = W X^T$，每个线程只拆它自己要乘的那些半字节。
# 在 fp16 里，位模式 `0x6400 + u` 就是 $1024 + u$。把零点放进 $u$，一次减法就处理了两个权重。
#
# warp 里哪个 lane 持有哪些半字节，见 `w4a16.ipynb` 第 5 步的图和 PTX；这里相同。
#
# @speed gptq: registers | 以你现在的 kernel，一个程序在循环的一轮里往共享内存写多少字节？

# %% solution="gptq_faster_registers"
stored = ...
### BEGIN SOLUTION
stored = 0  # this kernel stores none; before the step it was BLOCK_N * BLOCK_K * 2
### END SOLUTION
predict("gptq", "registers", stored)

# %% test="gptq_faster_registers_check"
check("gptq", speed="registers")

# %% [markdown]
# ### Faster, step 5: one token, without atomics
#
# With one token, there are too few tiles of 64 columns for 132 multiprocessors, and `SPLIT_K` needs a zeroed $Y$ and atomics. Let the
# warps of *one* program share $K$ instead. A slice is shorter than the tile, so it can lie in one group even if the tile
# does not.
#
# The lanes are those of step 6 of `w4a16.ipynb`: a whole word for each.
#
# @speed gptq: slices

# %% [markdown] lang="zh"
# ### 加速第 5 步：只有一个 token，不用原子操作
#
# 只有一个 token 时，64 列宽的 tile 太少，不够 132 个 SM 分；而 `SPLIT_K` 要先把 $Y$ 清零，再用原子操作累加。改由**一个**程序里的各个 warp 来分担 $K$。
# tile 的一段比 tile 短，所以即使 tile 跨了几组，一段也可以落在一组里。
#
# 各 lane 的分工与 `w4a16.ipynb` 第 6 步相同：每个 lane 一整个字。
#
# @speed gptq: slices | 权重的字共 8,388,608 字节。完成这一步之后，1 个 token 时，你的每个程序要读其中多少字节？

# %% solution="gptq_faster_slices"
bytes_each = ...
### BEGIN SOLUTION
bytes_each = 8388608 // 256
### END SOLUTION
predict("gptq", "slices", bytes_each)

# %% test="gptq_faster_slices_check"
check("gptq", speed="slices")

# %% [markdown]
# ### Against the clock
#
# **Your levers:** configs (up to 16), `SPLIT_K`, `num_stages`, how a word is unpacked, what is scaled, which operand `tl.dot` gets first.

# %% [markdown] lang="zh"
# ### 实测计时
#
# **可以调的有：** config（最多 16 个）、`SPLIT_K`、`num_stages`、字怎样拆、scale 乘在哪里、`tl.dot` 的第一个操作数放谁。

# %% test="gptq_speed" points=40
check_speed("gptq")

# %% [markdown]
# ## Questions
#
# The first four have numbers of your own, derived from your name, and are marked automatically.

# %% [markdown] lang="zh"
# ## 思考题
#
# 前四题的数字因人而异，由你的名字抽出，并且自动批改。

# %% solution="gptq_student"
student = ""
### BEGIN SOLUTION
student = "Ada Lovelace"
### END SOLUTION

# %% [markdown]
# **1. Bits per weight**

# %% [markdown] lang="zh"
# **1. 每个权重多少位**

# %% solution="gptq_answer_bits"
ask("gptq", "bits")
gptq_bits = None  # bits
### BEGIN SOLUTION
gptq_bits = 4 + 20 / 128
### END SOLUTION

# %% test="gptq_question_bits" points=1
check_answer("gptq", "bits")

# %% [markdown]
# **2. Bytes that must move**

# %% [markdown] lang="zh"
# **2. 至少要搬运多少字节**

# %% solution="gptq_answer_bytes"
ask("gptq", "bytes")
gptq_bytes = None  # MB
### BEGIN SOLUTION
gptq_bytes = (2 * 16 * 5120 + 2 * 16 * 8192 + 5120 * 8192 / 2 + 2.5 * 5120 * 8192 / 32) / 1e6
### END SOLUTION

# %% test="gptq_question_bytes" points=2
check_answer("gptq", "bytes")

# %% [markdown]
# **3. Read a zero point**

# %% [markdown] lang="zh"
# **3. 读一个零点**

# %% solution="gptq_answer_zero"
ask("gptq", "zero")
gptq_zero = None  # a whole number
### BEGIN SOLUTION
gptq_zero = 14 + 1
### END SOLUTION

# %% test="gptq_question_zero" points=2
check_answer("gptq", "zero")

# %% [markdown]
# **4. Make a weight**

# %% [markdown] lang="zh"
# **4. 算一个权重**

# %% solution="gptq_answer_weight"
ask("gptq", "weight")
gptq_weight = None  # a number
### BEGIN SOLUTION
gptq_weight = (10 - 5 - 1) * 0.125
### END SOLUTION

# %% test="gptq_question_weight" points=1
check_answer("gptq", "weight")

# %% [markdown]
# **5. Where the scale goes.** In W4A16 the scale was applied once, to the sum of all of $K$. Why not here, and what is the most that can
# leave the loop over the weights of a tile?

# %% [markdown] lang="zh"
# **5. scale 乘在哪里。** 在 W4A16 里，scale 只在整个 $K$ 求和之后乘一次。这里为什么不行？一个 tile 里，最多能把什么移出对权重的循环？

# %% [markdown] answer="gptq_question_scale" points=2
# The scale changes with $k$ from group to group, so it is no common factor of the sum over $K$, only of the sum over a group. A
# tile that lies in one group can be summed with the integers $q - (z + 1)$ and its sum scaled before it is added to the accumulator.

# %% [markdown] lang="zh"
# scale 随 $k$ 所在的组而变，所以它不是整个 $K$ 上的和的公因子，只是一组之内的和的公因子。如果一个 tile 落在一组里，可以先用整数 $q - (z + 1)$ 求和，
# 把这个和乘上 scale，再加到累加器上。

# %% [markdown]
# **6. Two ways to subtract.** $(q - (z + 1))\,s$ and $q\,s - (z + 1)\,s$ are equal on paper. Which is more exact in fp16, by about how much
# for $q = 15$ and $z + 1 = 16$, and why?

# %% [markdown] lang="zh"
# **6. 两种减法。** $(q - (z + 1))\,s$ 和 $q\,s - (z + 1)\,s$ 在纸面上相等。用 fp16 算，哪一种更精确？当 $q = 15$、$z + 1 = 16$ 时大约差多少，为什么？

# %% [markdown] answer="gptq_question_subtract" points=2
# The first: its difference of integers is exact and its product rounds once, by at most $2^{-11}$ of the result; here the result is even
# exact, $-s$. The second rounds $15 s$ and $16 s$, each by up to $2^{-11}$ of itself, and the result is only as large as $s$: an error of
# up to $15 \cdot 2^{-11}$ of it, nearly 1 % (16 s is a power of two times s, and exact).

# %% [markdown] lang="zh"
# 第一种：整数的差是精确的，乘积只舍入一次，误差至多是结果的 $2^{-11}$；在这个例子里结果 $-s$ 甚至是精确的。第二种要舍入 $15 s$ 和 $16 s$，
# 各自的误差至多是自身的 $2^{-11}$，而结果只有 $s$ 那么大：误差可达结果的 $15 \cdot 2^{-11}$，将近 1 %（$16 s$ 是 $s$ 乘以二的幂，是精确的）。

# %% [markdown]
# ## Done?
#
# Save this notebook. `make grade` reads the saved file and gives the same answer as the cells above.

# %% [markdown] lang="zh"
# ## 做完了？
#
# 保存这个 notebook。`make grade SUBMISSION=notebooks/zh` 读取保存的文件，给出的结果与上面各单元相同。
