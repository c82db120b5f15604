"""A vision transformer (Dosovitskiy et al., 2021) with random weights."""

import torch
from torch import nn


class VisionTransformer(nn.Module):
    """Takes [batch, side, side, 3] bytes and returns a score for each label."""

    def __init__(self, size):
        super().__init__()
        width, patches = size["width"], (size["pixels"] // size["patch"]) ** 2
        self._pixels = size["pixels"]
        self.patches = nn.Conv2d(3, width, size["patch"], stride=size["patch"])
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, patches + 1, width) * 0.02)
        block = nn.TransformerEncoderLayer(
            width, size["heads"], 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(block, size["depth"], nn.LayerNorm(width), enable_nested_tensor=False)
        self.head = nn.Linear(width, size["labels"])

    def forward(self, images):
        pixels = images.permute(0, 3, 1, 2).to(self.first.dtype) / 127.5 - 1
        pixels = nn.functional.interpolate(pixels, (self._pixels, self._pixels), mode="bilinear", align_corners=False)
        patches = self.patches(pixels).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.first.expand(len(images), -1, -1), patches], dim=1) + self.positions
        return self.head(self.blocks(tokens)[:, 0])
