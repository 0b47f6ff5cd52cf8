"""BERT (Devlin et al., 2019) from transformers, with random weights."""

from __future__ import annotations

import torch

from rematopt.zoo.common import Example, import_transformers, seeded


def bert(
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
    """Build a BERT that predicts masked tokens.

    ``layers=12, width=768, heads=12, vocabulary=30522, sequence=512`` is the published base model.

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
    config = transformers.BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=sequence,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )
    with seeded(seed):
        model = transformers.BertForMaskedLM(config)
        tokens = torch.randint(vocabulary, (batch, sequence))
        return model.train(), (), {"input_ids": tokens, "labels": tokens}
