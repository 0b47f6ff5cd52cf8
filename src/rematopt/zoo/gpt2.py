"""GPT-2 (Radford et al., 2019) from transformers, with random weights."""

from __future__ import annotations

import torch

from rematopt.zoo.common import Example, import_transformers, seeded


def gpt2(
    *,
    batch: int = 4,
    sequence: int = 256,
    layers: int = 4,
    width: int = 256,
    heads: int = 4,
    vocabulary: int = 512,
    dropout: float = 0.1,
    seed: int = 0,
) -> Example:
    """Build a GPT-2 that predicts the next token of its input.

    ``layers=12, width=768, heads=12, vocabulary=50257, sequence=1024`` is the smallest published model.

    Parameters
    ----------
    batch, sequence : int
        Rows of the batch and tokens in a row.
    layers, width, heads : int
        Blocks, hidden width and attention heads.
    vocabulary : int
        Number of different tokens.
    dropout : float
        Probability of dropping a value, in embeddings, attention and blocks.
    seed : int
        Seed of weights and batch.

    Raises
    ------
    RematoptError
        If transformers is not installed.
    """
    transformers = import_transformers()
    config = transformers.GPT2Config(
        vocab_size=vocabulary,
        n_positions=sequence,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        resid_pdrop=dropout,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
    with seeded(seed):
        model = transformers.GPT2LMHeadModel(config)
        # Without a name for the loss transformers warns in the forward, which splits the captured graph.
        model.loss_type = "ForCausalLM"
        tokens = torch.randint(vocabulary, (batch, sequence))
        return model.train(), (), {"input_ids": tokens, "labels": tokens}
