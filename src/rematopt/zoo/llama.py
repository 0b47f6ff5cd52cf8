"""A Llama-style decoder (Touvron et al., 2023) from transformers, with random weights."""

from __future__ import annotations

import torch

from rematopt.zoo.common import Example, import_transformers, seeded


def llama(
    *,
    batch: int = 4,
    sequence: int = 256,
    layers: int = 4,
    width: int = 256,
    heads: int = 4,
    key_value_heads: int = 2,
    hidden: int = 704,
    vocabulary: int = 512,
    seed: int = 0,
) -> Example:
    """Build a decoder with rotary embeddings, RMS normalization, gated layers and grouped attention.

    Parameters
    ----------
    batch, sequence : int
        Rows of the batch and tokens in a row.
    layers, width, heads, key_value_heads : int
        Blocks, hidden width, attention heads, and heads of keys and values.
    hidden : int
        Width inside the gated layers.
    vocabulary : int
        Number of different tokens.
    seed : int
        Seed of weights and batch.

    Raises
    ------
    RematoptError
        If transformers is not installed.
    """
    transformers = import_transformers()
    config = transformers.LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_value_heads,
        max_position_embeddings=sequence,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    with seeded(seed):
        model = transformers.LlamaForCausalLM(config)
        # Without a name for the loss transformers warns in the forward, which splits the captured graph.
        model.loss_type = "ForCausalLM"
        tokens = torch.randint(vocabulary, (batch, sequence))
        return model.train(), (), {"input_ids": tokens, "labels": tokens}
