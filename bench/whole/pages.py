"""What docs/benchmarks.md says of whole models: the tables of what was measured, and what may set them apart from the lecture's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench.whole.model_drawings import NAMES
from grader.reporting.whole_models import SHOWN_MODELS, ModelRecord, Which, load_model_record, markdown, not_measured

Models = Mapping[Which, ModelRecord]

ENCODER = """\
## A whole encoder

The lecture's example is the image encoder of Segment Anything: ViT-H, 32 blocks of width 1280, windows of 14 x 14 patches and four blocks
that see all of an image of 1024 x 1024, batch 16. `bench/whole/vit.py` is that encoder without its neck, with random weights. All Linear
layers of the blocks are replaced; the patch embedding, norms and attention stay in 16 bits. `make bench-models` measures it, and what
follows on this page, on a GPU.

Times are those of a forward pass between CUDA events, in rounds that go through all rows and back (A B C C B A), with the range of all
passes; a ratio is time of fp16 / time of the row in the same rounds, with its 99 % interval. Peak memory is
`torch.cuda.max_memory_allocated` during a pass, weights and images included, in units of 10^9 bytes. Each row's outputs are compared with
fp32 before it is timed.
"""

DIFFERENCES = """\
What may set these numbers apart from the lecture's, which its notes give without saying how they were measured:

- On an H200 the second table is nearer to the lecture than the first: in eager fp16 more than half of its time, and more than its
  memory, most of it scores of attention. No way of attention here gives both of its numbers.
- The GPU: the notes name none, and times of one say nothing of another. What can be compared are ratios, and differences in memory.
- What is compiled: the lecture's fused row is torch.compile with a pass that forces the multiplication by a scale into the product
  (`force_fuse_int_mm_with_mul`), a switch that torch 2.13 still has and no longer acts on. Its Triton templates take the multiplication
  into their epilogue where autotuning finds that faster, or where only templates are allowed, which is a row of its own. In the eager
  rows each operation is a kernel, so that quantising in three steps also reads and writes X in 32 bits several times.
- Attention: relative positions are a bias on the scores. In a block that sees the whole image these are 16 heads x 4096 x 4096 numbers for
  each image, 8.6 x 10^9 bytes in 16 bits for a batch of 16, beside which the int32 product of the widest layer, 1.3 x 10^9 bytes, hardly
  shows; and PyTorch's flash attention takes no bias. So the first table leaves them out and shows what the Linear layers do; the
  second has them. Which attention kernel the lecture ran, its notes do not say.
- Sums: cuBLAS adds the products of fp16 in fp32 here; `torch.backends.cuda.matmul.allow_fp16_accumulation` is off, as PyTorch has it.
- The formats: the int8 rows are fp16 between products, as the labs' layers are; the notes write bf16. fp16 and bf16 have rows of their own.
- The model: no neck, no decoder of masks, and nothing that loads and resizes images.
- The fused row is the lab's layer as it is: the scales of X are found before the kernel, by operations of PyTorch, and the bias is
  added after it. With all around it compiled, these are fused with their neighbours.
"""

DECODER = """\
## One decoder layer

A layer of Llama 7 B: four products 4096 x 4096, two 11008 x 4096, one 4096 x 11008, for one new token of each sequence, with a cache of 512
places. Four copies of the layer run one after the other in a CUDA graph, each with weights and a cache of its own, L2 flushed before, so
that weights come from memory as they do in the whole model. Tokens a second are those of 32 such layers, embedding and last layer left out.
Norms, rotary positions and, in w8a8, the scales of X are small kernels of their own.
"""

INTRODUCTIONS: dict[Which, str] = {
    "encoder": ENCODER, "encoder_positions": "With relative positions in attention:\n", "decoder": DECODER,
}


def load_models(root: Path = Path()) -> Models:
    """The records that are there. Raises Unusable."""
    found: dict[Which, ModelRecord | None] = {which: load_model_record(which, root) for which in SHOWN_MODELS}
    return {which: record for which, record in found.items() if record is not None}


def models_page(models: Models) -> str:
    """The part of the page: a section each, with picture and table, or the sentence that nothing was measured."""
    parts = []
    for which, introduction in INTRODUCTIONS.items():
        parts.append(introduction)
        if which in models and which in NAMES:
            parts.append(f"![{NAMES[which][1]}](../bench/figures/{NAMES[which][0]})\n")
        parts.append(markdown(models[which]) if which in models else not_measured(which))
        if which == "encoder_positions":
            parts.append(DIFFERENCES)
    return "\n".join(parts)
