# %% [markdown]
# # What does quantising do to a language model?
#
# The labs ask whether a kernel is *right* and how *fast* it is. This notebook asks what it is *for*: a small language model runs with
# the labs' layers instead of its own, and you see what that costs in quality and saves in bytes.
#
# The model is a transformer over bytes, trained on the sources of Python's standard library; its card, `model/README.md`, says how.
# It is small, so everything here runs on a CPU in minutes. Without a GPU the labs' layers compute with `naive`, in plain PyTorch: the
# quality is exact then, but the times mean nothing.
#
# Nothing here is graded.

# %% [markdown] lang="zh"
# # 量化对语言模型做了什么？
#
# 各个实验问的是 kernel **对不对**、**快不快**。这个 notebook 问的是它**为了什么**：把一个小语言模型里的线性层换成实验里的层，
# 看质量损失多少、字节省下多少。
#
# 模型是一个以字节为 token 的 transformer，用 Python 标准库的源码训练；训练过程见它的说明卡 `model/README.md`。它很小，所以这里的
# 一切在 CPU 上几分钟就能跑完。没有 GPU 时，这些层用 `naive`（普通 PyTorch）计算：质量是准确的，时间则没有意义。
#
# 这里不计分。

# %%
# include notebooks/source/parts/setup.py

# %%
import copy
import time

from grader.labs import all_labs
from model.corpus import held_out_text, training_text
from model.drawings import curves, spreads
from model.exercises import captured, check_outputs
from model.layers import but_the_head, layer_inputs, relative_error, weight_bytes
from model.outliers import plant
from model.perplexity import measure, windows
from model.pruning import prune
from model.store import load
from model.swap import swap
from model.times import load_times, usual_options
from model.training import Recipe
from model.transformer import linear_layers

model = load(device=device)
held_out = held_out_text()
context = model.sizes.context
sample = held_out.text[: 16 * context + 1]
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f} million parameters, {len(linear_layers(model))} Linear layers")
print(f"{len(held_out.differing)} of {held_out.files} held-out files differ from those that the model was measured on")

# %% [markdown]
# ## 1. Perplexity
#
# The model gives each next byte a probability. *Bits per byte* is the mean of $-\log_2 p$ over a text that it was not trained on, and
# perplexity is $2$ to the power of that: the model is as uncertain as if it had to guess among that many equally likely bytes. A
# model that knows nothing needs 8 bits and has a perplexity of 256.

# %% [markdown] lang="zh"
# ## 1. 困惑度（perplexity）
#
# 模型给每个“下一个字节”一个概率。在没有训练过的文本上取 $-\log_2 p$ 的平均，就是 *bits per byte*；困惑度（perplexity）是 $2$ 的这个次方：
# 相当于要在这么多个等可能的字节里猜。什么都不懂的模型是 8 bit，困惑度为 256。

# %%
def perplexity(changed, text=sample):
    return measure(changed, text, context).perplexity

base = perplexity(model)
print(f"perplexity {base:.3f} over {len(sample) - 1} bytes")

# %% [markdown]
# And this is what it writes. Temperature 0.7; the first line is given.

# %% [markdown] lang="zh"
# 它写出来的东西是这样的。温度 0.7；第一行是给定的。

# %%
@torch.no_grad()
def write(changed, start, count=160, temperature=0.7):
    generator = torch.Generator(device=device).manual_seed(1)
    text = torch.tensor([list(start.encode())], device=device)
    for _ in range(count):
        logits = changed(text[:, -context:])[0, -1].float() / temperature
        text = torch.cat((text, torch.multinomial(logits.softmax(0), 1, generator=generator)[None]), dim=1)
    return bytes(text[0].tolist()).decode(errors="replace")

print(write(model, "def read(self, path):\n"))

# %% [markdown]
# ## 2. The labs' layers
#
# `swap(model, "w8a8")` replaces each Linear layer by the layer of a lab. The last layer stays as it is, as usual. Before you
# run the cell: which lab costs most? To run your own kernel on a GPU, pass `submission=Path("w8a8.ipynb")`.
#
# The row fp16 has the perplexity of the unchanged model, in fp32, and the bytes of a copy in fp16. The last digit is noise: on
# another text a row may also be a little better than the model.

# %% [markdown] lang="zh"
# ## 2. 实验里的层
#
# `swap(model, "w8a8")` 把每个 Linear 层换成某个实验的层。最后一层照例保持原样。运行之前先想一想：哪个实验的层损失最大？
# 想在 GPU 上跑自己的 kernel，可以写 `submission=Path("w8a8.ipynb")`。
#
# fp16 那一行的困惑度是原模型（fp32）的，字节数是它的 fp16 副本的。最后一位数字是噪声：换一段文本，某一行也可能比原模型还好一点。

# %%
def tokens_a_second(changed):
    """Bytes a second in windows of the sample, on a GPU; a CPU runs `naive`, whose time says nothing."""
    if device.type != "cuda":
        return None
    batch = windows(sample, context)[:, :-1].to(device)
    with torch.no_grad():
        changed(batch)
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(20):
            changed(batch)
        torch.cuda.synchronize()
    return 20 * batch.numel() / (time.perf_counter() - started)

def said(rate):
    return "not measured" if rate is None else f"{rate:,.0f}"

halves = copy.deepcopy(model).half()
print(f"{'':10}{'perplexity':>12}{'bytes':>12}{'tokens a second':>18}")
print(f"{'fp16':10}{base:12.3f}{weight_bytes(halves):12,}{said(tokens_a_second(halves)):>18}")
found = {"fp16": base}
for lab in all_labs():
    changed, small = copy.deepcopy(model), copy.deepcopy(halves)
    swap(changed, lab, choose=but_the_head, **usual_options(lab))
    swap(small, lab, choose=but_the_head, **usual_options(lab))
    found[lab] = perplexity(changed)
    print(f"{lab:10}{found[lab]:12.3f}{weight_bytes(small):12,}{said(tokens_a_second(small)):>18}")
pictures.bars(found, "perplexity", "The whole model with each lab's layers")

# %% [markdown]
# `dds` pruned half of all blocks without any retraining. Section 7 comes back to it.

# %% [markdown] lang="zh"
# `dds` 不由分说剪掉了一半的块。第 7 节会回到这一点。

# %% [markdown]
# ## 3. Which layer suffers most?
#
# Each layer gets the inputs that it gets in the model, and its outputs with the lab's weights are compared with the exact ones:
# $\|Y' - Y\| / \|Y\|$. That is cheap, but does not show what happens to the model. So the last cell replaces one layer at a time by
# that of `w4a16` and measures perplexity, on the first half of the sample and on the second. If the halves disagree, the text was too
# short to tell.

# %% [markdown] lang="zh"
# ## 3. 哪一层最吃亏？
#
# 给每一层它在模型里真正得到的输入，把换上实验的权重之后的输出同正确的输出相比：$\|Y' - Y\| / \|Y\|$。这很便宜。
# 对整个模型影响多大是另一个问题：最后一个单元每次只把一层换成 `w4a16` 的层，分别在样本的前一半和后一半上测困惑度。
# 两半结果不一致，就说明文本太短，看不出来。

# %%
batch = windows(sample, context)[:2, :-1]
inputs = layer_inputs(model, batch, but_the_head)
print(f"{'':24}" + "".join(f"{lab:>10}" for lab in all_labs()))
errors = {}
for name, layer in linear_layers(model).items():
    if not but_the_head(name):
        continue
    row = []
    for lab in all_labs():
        alone = torch.nn.ModuleDict({"layer": copy.deepcopy(layer)})
        swap(alone, lab, **usual_options(lab))
        with torch.no_grad():
            row.append(relative_error(alone["layer"](inputs[name]), layer(inputs[name])))
    errors[name] = row
    print(f"{name:24}" + "".join(f"{error:10.4f}" for error in row))

# %%
short, rest = sample[: 8 * context + 1], sample[8 * context :]
before, before_rest = perplexity(model, short), perplexity(model, rest)
print(f"the model as it is: perplexity {before:.3f} over the first half, {before_rest:.3f} over the second")
rise = {}
for name in errors:
    changed = copy.deepcopy(model)
    swap(changed, "w4a16", choose=lambda layer, name=name: layer == name)
    rise[name] = (100 * (perplexity(changed, short) / before - 1), 100 * (perplexity(changed, rest) / before_rest - 1))
    print(f"{name:24}{rise[name][0]:+8.2f} %{rise[name][1]:+8.2f} %")
noise = max(abs(a - b) for a, b in rise.values())
print(f"most on the first half: {max(rise, key=lambda name: rise[name][0])}, on the second: {max(rise, key=lambda name: rise[name][1])}")
print(f"the halves disagree by up to {noise:.2f} %")
pictures.bars({name: max(sum(both) / 2, 0.0) for name, both in rise.items()}, "% more perplexity, mean of both halves",
              "One layer in int4 (0: no worse)")

# %% [markdown]
# **To think about.** Is the layer with the largest output error the one that hurts the model most? Which differences are larger than
# the difference between the halves, and how much text would the others need?

# %% [markdown] lang="zh"
# **想一想。** 输出误差最大的那一层，就是模型最离不开的那一层吗？哪些差别大于两半之间的分歧？其余的要多长的文本才看得出来？

# %% [markdown]
# ## 4. Weights and activations
#
# Weights look much like a normal distribution. Activations do not: after the MLP's GELU most are near zero and a few are large. One
# scale for all of them must cover the largest.

# %% [markdown] lang="zh"
# ## 4. 权重与激活
#
# 权重看上去很像正态分布。激活不是：经过 MLP 的 GELU 之后，大多数接近零，少数很大。共用一个 scale，就得照顾到最大的那个。

# %%
layers = linear_layers(model)
spreads({
    "weights of blocks.1.mlp.up": layers["blocks.1.mlp.up"].weight, "weights of blocks.1.mlp.down": layers["blocks.1.mlp.down"].weight,
}, "weight")

# %%
spreads({
    "inputs of blocks.1.mlp.up": inputs["blocks.1.mlp.up"], "inputs of blocks.1.mlp.down": inputs["blocks.1.mlp.down"],
}, "activation")

# %% [markdown]
# ### Outliers
#
# In large models a few features of the activations are a hundred times as large as the others, in every token ([Dettmers et al.
# 2022](https://arxiv.org/abs/2208.07339)). A small model has none, so `plant` makes some: it multiplies a norm's gain by 64 and
# divides the matching column of the next weight by 64. The function stays the same. What happens to int8?

# %% [markdown] lang="zh"
# ### 离群值（outlier）
#
# 在大模型里，激活的少数几个特征在每个 token 上都比其余的大上百倍（[Dettmers et al. 2022](https://arxiv.org/abs/2208.07339)）。
# 小模型没有，所以用 `plant` 造几个：把 norm 的增益乘以 64，再把后面权重的对应列除以 64。函数没有变。int8 会怎样？

# %%
planted = copy.deepcopy(model)
features = plant(planted)
print(f"planted, nothing quantised: perplexity {perplexity(planted):.3f} (before {base:.3f})")
for lab in ("w8a8", "w4a16"):
    changed = copy.deepcopy(planted)
    swap(changed, lab, choose=but_the_head)
    print(f"planted, {lab}: perplexity {perplexity(changed):.3f} (without outliers {found[lab]:.3f})")
spreads({
    "blocks.1.mlp.up, as trained": inputs["blocks.1.mlp.up"],
    "blocks.1.mlp.up, planted": layer_inputs(planted, batch, but_the_head)["blocks.1.mlp.up"],
}, "activation")

# %% [markdown]
# ## 5. Write them yourself
#
# Three methods, each a few lines of PyTorch. `captured()` has the weight of a layer `[N, K]` and its inputs `[M, K]`, with planted
# outliers. `check_outputs` compares the outputs that your function gives with those of the definition, also for other arguments, and
# shows the errors of both.
#
# **Groups.** Symmetric: each `group` consecutive elements of a row have a scale, $s = \max|w| / (2^{b-1} - 1)$, $q = \mathrm{clamp}(\mathrm{round}(w / s),
# -2^{b-1}, 2^{b-1} - 1)$. Return $q s$, in the shape of the weight.

# %% [markdown] lang="zh"
# ## 5. 自己写一写
#
# 三种方法，每种只有几行 PyTorch。`captured()` 里有某一层的权重 `[N, K]` 和它得到的输入 `[M, K]`，已经种上离群值。
# `check_outputs` 把这一层的输出同按定义算出来的相比（换一组参数再比一次），并说出两者的误差。
#
# **分组。** 对称量化：一行里每 `group` 个相邻元素共用一个 scale，$s = \max|w| / (2^{b-1} - 1)$，$q = \mathrm{clamp}(\mathrm{round}(w / s),
# -2^{b-1}, 2^{b-1} - 1)$。返回 $q s$，形状同权重。

# %% solution="model_groups"
def in_groups(weight, bits, group):
    ### BEGIN SOLUTION
    parts = weight.reshape(weight.shape[0], -1, group)
    largest = 2 ** (bits - 1) - 1
    scale = parts.abs().amax(dim=-1, keepdim=True) / largest
    return ((parts / scale).round().clamp(-largest - 1, largest) * scale).reshape(weight.shape)
    ### END SOLUTION

# %%
check_outputs("groups", in_groups);

# %% [markdown]
# **SmoothQuant.** Return $s$ `[K]` with $s_k = \sqrt{\max|X_k| / \max|W_k|}$ over the columns of both. Then $X / s$ and $W s$ are rounded to int8.

# %% [markdown] lang="zh"
# **SmoothQuant。** 返回 $s$ `[K]`：$s_k = \sqrt{\max|X_k| / \max|W_k|}$，分别在两者的列上取最大值。之后把 $X / s$ 和 $W s$ 量化到 int8。

# %% solution="model_smooth"
def smoothing_scales(x, weight):
    ### BEGIN SOLUTION
    return (x.abs().amax(dim=0) / weight.abs().amax(dim=0)).sqrt()
    ### END SOLUTION

# %%
check_outputs("smooth", smoothing_scales);

# %% [markdown]
# **LLM.int8().** Features with some $|x| \ge$ `threshold` are multiplied as they are; the rest is rounded to int8, one scale per row
# of X and one per row of W, and multiplied. Return the sum of both products, `[M, N]`.

# %% [markdown] lang="zh"
# **LLM.int8()。** 凡是有 $|x| \ge$ `threshold` 的特征照原样相乘；其余的量化到 int8（X 每行一个 scale，W 每行一个 scale）再相乘。返回两个乘积之和，`[M, N]`。

# %% solution="model_decompose"
def decomposed(x, weight, threshold):
    ### BEGIN SOLUTION
    def int8(rows):
        scale = rows.abs().amax(dim=1, keepdim=True) / 127
        return (rows / scale).round() * scale

    outlier = (x.abs() >= threshold).any(dim=0)
    return x[:, outlier] @ weight[:, outlier].t() + int8(x[:, ~outlier]) @ int8(weight[:, ~outlier]).t()
    ### END SOLUTION

# %%
check_outputs("decompose", decomposed);

# %% [markdown]
# ## 6. All methods
#
# `python -m model table` measured the methods of the literature on this model, once, and kept the numbers; `model/quantisers/` has a
# page for each, with its formula and source. Rounding to nearest needs nothing but the weights; GPTQ and AWQ look at examples;
# quantisation-aware training changes the weights until they fit the grid, here for a short while. ZeroQuant is int8 with groups of
# weights and one scale per token. Bits of scales and zero points are counted, and in the labs' layers those of biases too. The text
# differs from the one above, so the perplexity of fp16 differs too. The column "kernel" names the lab whose kernel multiplies weights
# stored in this format, and `python -m model times` times a layer through it on a GPU.

# %% [markdown] lang="zh"
# ## 6. 各种方法
#
# `python -m model table` 在这个模型上把文献里的方法都测过一遍，结果保存了下来；`model/quantisers/` 里每种方法一页，有公式和出处。
# 就近取整（round to nearest）只需要权重；GPTQ 和 AWQ 要看样本；量化感知训练（QAT）则一直改权重，直到它们适应网格（这里只训练了一小会儿）。
# ZeroQuant 是 int8：权重分组，激活每个 token 一个 scale。scale 和零点的 bit 都算在内。文本与上面的不同，所以 fp16 的困惑度也不同。
# “kernel” 一列写的是哪个实验的 kernel 能直接乘这样存放的权重；`python -m model times` 在 GPU 上用它给一层计时。

# %%
from IPython.display import Markdown
from model.table import load as load_results
from model.table import markdown

results, times = load_results(), load_times()
print(f"{results.device}, {results.date}, {results.sample_bytes} held-out bytes")
print(f"times: {times.gpu}, {times.date}, {times.layer} with {times.tokens} tokens" if times else "times: not measured yet")
Markdown(markdown(results, times))

# %% [markdown]
# **To think about.** The layer that is timed is small, with many tokens: is any format faster than fp16 there, and why, or why not?
# Section 8 has large layers with few tokens. What do groups gain, and what do they cost in bits? Where does GPTQ gain most? And with
# planted outliers: what do SmoothQuant and LLM.int8() do about them that groups of weights do not? In section 4, which lab lost more
# to them, and why?

# %% [markdown] lang="zh"
# **想一想。** 计时的那一层很小，token 却很多：有没有哪种格式比 fp16 快？为什么？第 8 节有 token 少的大层。分组换来了什么，又花了多少 bit？GPTQ 在哪里收益最大？种上离群值之后，SmoothQuant 和 LLM.int8() 做了什么，是权重分组做不到的？
# 第 4 节里哪个实验因离群值损失更多，为什么？

# %% [markdown]
# ## 7. Pruning blocks
#
# `dds` drops the 32 x 32 blocks with the smallest norms. How many can go? And how much quality comes back if the model is trained for
# a few more steps with the zeros kept? Here it is twenty short steps; a real recipe takes thousands and prunes little by little.

# %% [markdown] lang="zh"
# ## 7. 按块剪枝
#
# `dds` 去掉范数最小的 32 x 32 块。能去掉多少？如果把零固定住、再训练几步，又能找回多少？这里只有短短二十步；真正的做法要几千步，并且逐步地剪。

# %%
text = training_text()
recipe = Recipe(steps=20, batch=4, learning_rate=5e-4)
pruned, retrained = {0.0: before}, {}
for sparsity in (0.05, 0.1, 0.2, 0.5):
    changed = copy.deepcopy(model)
    prune(changed, sparsity, but_the_head)
    pruned[sparsity] = perplexity(changed, short)
    changed = copy.deepcopy(model)
    prune(changed, sparsity, but_the_head, text, recipe)
    retrained[sparsity] = perplexity(changed, short)
    print(f"{sparsity:.0%} of blocks gone: perplexity {pruned[sparsity]:.2f}, after {recipe.steps} steps {retrained[sparsity]:.2f}")
curves({"pruned": pruned, f"and trained for {recipe.steps} steps": retrained}, "share of blocks gone", "perplexity",
       "Magnitude pruning of 32 x 32 blocks")

# %% [markdown]
# A sparse kernel is faster than cuBLAS only beyond some sparsity; `docs/benchmarks.md` says where that is on one GPU. At which
# sparsity has this curve risen by 5 %? Whether block sparsity pays depends on which of the two comes first.

# %% [markdown] lang="zh"
# 稀疏 kernel 要过了某个稀疏度才比 cuBLAS 快；`docs/benchmarks.md` 里有一种 GPU 上的数字。这里的曲线到多大的稀疏度时升高了 5 %？
# 块稀疏划不划算，取决于哪条曲线先到。

# %% [markdown]
# ## 8. Whole models
#
# The lecture timed an image encoder (ViT-H, batch 16) in 16 bits, with dynamic int8 in separate steps, and fused.
# `python -m bench encoder` does the same on a GPU, and `python -m bench decoder` times one decoder layer of a 7 B model with every
# lab's layer. Before you run the cells, predict: where does quantising save time, where memory, and where neither?
# `docs/benchmarks.md` says why the numbers may differ from the lecture's. "Distance" is $\|Y' - Y\| / \|Y\|$ of the outputs. The
# model of the second table has relative positions in its attention, whose biases take a lot of memory.

# %% [markdown] lang="zh"
# ## 8. 整个模型
#
# 讲座给一个图像编码器（ViT-H，batch 16）计了时：16 bit、分步的动态 int8、融合后的动态 int8。`python -m bench encoder` 在 GPU 上做同样的事，
# `python -m bench decoder` 则用每个实验的层给 7 B 模型的一个 decoder 层计时。运行之前先想一想：量化在哪里省时间，在哪里省显存，
# 在哪里两样都不省？这些数字可能因为什么而与讲座的不同，见 `docs/benchmarks.md`。距离是输出的 $\|Y' - Y\| / \|Y\|$；第二张表的注意力
# 带相对位置，它的偏置占满显存。

# %%
from grader.reporting.whole_models import load_model_record, shown

Markdown(shown("encoder"))

# %%
Markdown(shown("encoder_positions"))

# %%
Markdown(shown("decoder"))

# %% [markdown]
# **To think about.** Batch 1 and batch 16: which formats gain, and does any gain more with 16 tokens than with one? A w8a16 layer
# reads half the bytes of fp16. Why is it not twice as fast? And why is w8a8 not, with as few bytes?

# %% [markdown] lang="zh"
# **想一想。** batch 1 与 batch 16：哪些格式变快了？有没有哪种在 16 个 token 时比 1 个时得到更多？w8a16 的层只读 fp16 一半的字节，为什么快不了一倍？字节同样少的 w8a8 呢？

# %% [markdown]
# ## 9. What would you ship?
#
# This shows what a format costs in quality, from section 6, beside its speed in a layer of a 7 B model, from section 8. The quality
# is that of a small model; a large one has real outliers, so measure yours.

# %% [markdown] lang="zh"
# ## 9. 你会用哪一种？
#
# 左边是第 6 节里每种格式损失的质量，右边是第 8 节里它在 7 B 模型的一层上换来的速度。这里的质量是一个小模型的：大模型有自己的离群值，所以要在你的模型上再测。

# %%
decoder = load_model_record("decoder")
costs = {"fp16": results.of("fp16"), **{row.lab: row for row in results.rows if row.lab and not row.planted}}
for lab, row in costs.items():
    gained = [entry for entry in decoder.timed if entry.contestant == lab] if decoder else []
    speed = ", ".join(f"batch {entry.batch}: {entry.ratio:.2f} times as fast" for entry in gained) or "not timed"
    size = f"{gained[0].weight_bytes / 1e6:5.0f} MB a layer" if gained else ""
    print(f"{lab:6} perplexity {row.perplexity / costs['fp16'].perplexity - 1:+8.1%}   {size}   {speed}")

# %% [markdown]
# **Decide, and say why, in two sentences each:** a chat on one GPU, one sequence at a time; a server with hundreds of sequences in a
# batch; an image encoder with thousands of tokens at a time; and single layers, using section 3.
#
# One answer, with numbers from an H200: With one token a layer waits for its weights, so the format with the fewest bytes wins if it
# is cheap to unpack: int4 with one scale per channel, rounded by GPTQ. W8A8 has few bytes too, but it needs separate launches to find
# the scales of $X$ before it multiplies. Unpacking groups with zero points takes more instructions: the gptq layer has about half the
# bytes of the w8a16 layer, and is no faster. Section 3's text is too short to show which layers need more than int4; if more text
# shows some, int8 weights cost next to nothing in quality and are as fast as groups. With hundreds of sequences in a batch each step
# has hundreds of tokens, and the gain becomes a loss: with 512 tokens and a weight of 4096 x 4096, W4A16 is
# @bench{ratio("w4a16", "m512_n4096_k4096"):.2f} and W8A8 @bench{ratio("w8a8", "m512_n4096_k4096"):.2f} times as fast as fp16
# (`docs/benchmarks.md`). There a small weight leaves memory for more sequences, but costs time. With thousands of tokens a layer
# waits for its products, and weight-only formats multiply in fp16 too: they save memory, not time. Only int8 times int8 has faster
# instructions, and the encoder shows what is left of the gain once $X$ must be quantised as well: fused and compiled, it is about as
# fast as compiled fp16, with half the bytes of weights and a higher memory peak, so measure before you ship it. And do not ship
# blocks of zeros without training the model with them.

# %% [markdown] lang="zh"
# **请作决定，每种情况用两句话说明理由：** 一块 GPU 上的聊天，一次一个序列；一台服务器，一个 batch 里有几百个序列；一个图像编码器，一次几千个 token；
# 还有单独的层（第 3 节）。
#
# 一种答案，依据是 H200 的数字。只有一个 token 时，一层的时间就是读权重的时间（memory-bound），所以能直接相乘的格式中，字节越少越快：用 int4，每个通道一个 scale，用 GPTQ 取整。
# W8A8 的字节也少，但它要先用单独的几次启动求出 $X$ 的 scale，然后才相乘。
# 带零点的分组，拆包要用更多指令：gptq 那一层的字节约为 w8a16 的一半，却并不更快。第 3 节的文本太短，看不出哪些层需要比 int4 更多的位；如果更长的文本看出来了，
# 就让这些层用 int8 权重：质量几乎没有损失，速度与分组一样。一个 batch 里有几百个序列时，每一步就有几百个 token，收益变成了损失：512 个 token、4096 x 4096 的权重，W4A16 是 fp16 的 @bench{ratio("w4a16", "m512_n4096_k4096"):.2f} 倍速，W8A8 是 @bench{ratio("w8a8", "m512_n4096_k4096"):.2f} 倍速（`docs/benchmarks.md`）。
# 权重变小，这时换来的是显存（能放下更多序列），付出的是时间。有几千个 token 时，一层受限于乘法（compute-bound），而只量化权重的格式同样用 fp16 做乘法：
# 省的是显存，不是时间。只有 int8 乘 int8 有更快的指令；编码器那张表说明，算上 $X$ 的量化之后还剩下多少：融合并编译之后，它接近同样编译过的 fp16，
# 权重的字节数减半，显存峰值却更高，所以上线之前要先测。至于整块的零：剪枝之后不带着这些零再训练，就不要上线。
