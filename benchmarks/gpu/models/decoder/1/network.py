"""A decoder-only transformer with random weights, which keeps the keys and values of many streams."""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class Decoder(nn.Module):
    """Each stream has a place of its own, in which keys and values of its earlier tokens are."""

    def __init__(self, size):
        super().__init__()
        width, heads = size["width"], size["heads"]
        self.tokens = nn.Embedding(size["vocabulary"], width)
        self.positions = nn.Embedding(size["positions"], width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(size["depth"]))
        self.norm = nn.LayerNorm(width)
        for weights in self.parameters():
            if weights.dim() > 1:
                nn.init.normal_(weights, std=0.02)

    def allocate(self, streams):
        """Make the places; call it once, when the network is where it stays."""
        weights = self.tokens.weight
        for block in self.blocks:
            shape = (2, streams, block.heads, self.positions.num_embeddings, weights.shape[1] // block.heads)
            block.kept = torch.zeros(shape, device=weights.device, dtype=weights.dtype)

    @torch.inference_mode()
    def next_tokens(self, places, tokens, begin):
        """Take the same number of tokens of each stream, from its position `begin` on; return its most likely next."""
        device = self.tokens.weight.device
        places, tokens = torch.tensor(places, device=device), torch.tensor(tokens, device=device)
        end = max(begin) + tokens.shape[1]
        positions = torch.tensor(begin, device=device)[:, None] + torch.arange(tokens.shape[1], device=device)
        seen = torch.arange(end, device=device) <= positions[:, None, :, None]  # earlier tokens of the same stream only
        values = self.tokens(tokens) + self.positions(positions)
        for block in self.blocks:
            values = block(values, places, positions, seen)
        return (self.norm(values[:, -1]) @ self.tokens.weight.T).argmax(dim=1).tolist()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.kept = None
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layers = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, values, places, positions, seen):
        count, length, width = values.shape
        split = self.attention(self.before_attention(values)).view(count, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        where = (
            places[:, None, None],
            torch.arange(self.heads, device=places.device)[None, :, None],
            positions[:, None],
        )
        self.kept[0][where], self.kept[1][where] = key, value
        keys, found = self.kept[:, places, :, : seen.shape[-1]]
        attended = scaled_dot_product_attention(query, keys, found, attn_mask=seen)
        values = values + self.projection(attended.transpose(1, 2).reshape(count, length, width))
        return values + self.layers(self.before_layers(values))
