"""Humming's layers, from weights quantised as a lab's own; their kernels are compiled when a layer is first called."""

from __future__ import annotations

from typing import Any

import torch


def humming_layer(codes: torch.Tensor, scales: torch.Tensor, bits: int, activations: str = "float16") -> Any:
    """A layer without bias on the current GPU, whose weight [n, k] is (codes - 2^(bits - 1)) * scales.

    codes: integers of 0 to 2^bits - 1 [N, K]; scales: floating [N]. activations: the dtype that is multiplied; what x has to be
    quantised to is quantised in the layer's call, a scale for each token.
    """
    from humming import ops
    from humming.layer import HummingLayer

    N, K = codes.shape
    layer = HummingLayer(N, K, {"dtype": f"uint{bits}"}, {"dtype": activations}, torch_dtype=torch.float16).cuda()
    packed = ops.pack_weight(codes.to(torch.int32).contiguous(), bits)
    layer.load_from_tensors({"weight": packed, "weight_scale": scales[:, None].to(torch.float16).contiguous()})
    layer.transform()
    return layer
