"""Small models, each with something that rematerialization gets wrong easily."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Mixed(nn.Module):
    """Dropout, batch norm, a counter, a reused layer and a residual."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width)
        self.drop = nn.Dropout(0.3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        h = self.drop(torch.tanh(self.inner(x)))
        h = self.norm(h + x)
        h = F.dropout(F.gelu(self.inner(h)), 0.2, self.training)
        return (h + torch.randn_like(h)).square().mean()


class Attention(nn.Module):
    """Scaled dot product attention with dropout, split views, and a layer norm."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        h = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        return (x + self.out(h.transpose(1, 2).reshape(batch, length, width))).square().mean()


class InPlace(nn.Module):
    """In-place operations on activations and through views."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.head = nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.relu(self.norm(self.conv(x))) + 1
        h[:, ::2] *= 0.5
        h = F.max_pool2d(h, 2)
        return self.head(h.mean((2, 3))).square().mean()


class Moving(nn.Module):
    """Reads a buffer, then overwrites it; the backward pass needs what was read."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.register_buffer("average", torch.full((width,), 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.average.exp()
        h = x * scale * self.weight
        with torch.no_grad():
            self.average.mul_(0.9).add_(h.mean(0), alpha=0.1)
        return (h.sin() * scale).square().mean()


class Tied(nn.Module):
    """One weight in two places, integer inputs only."""

    def __init__(self, words: int = 20, width: int = 8) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.body = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1))
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.body(self.embed(ids)))
        return F.cross_entropy(logits.flatten(0, 1), ids.flatten())


def examples() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """The models by name with arguments, built from a fixed seed."""
    torch.manual_seed(0)
    return {
        "mixed": (Mixed(), (torch.randn(5, 12),)),
        "attention": (Attention(), (torch.randn(2, 6, 16),)),
        "in_place": (InPlace(), (torch.randn(2, 3, 8, 8),)),
        "moving": (Moving(), (torch.randn(4, 6),)),
        "tied": (Tied(), (torch.randint(0, 20, (2, 5)),)),
    }
