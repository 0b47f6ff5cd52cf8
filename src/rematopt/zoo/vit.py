"""A vision transformer (Dosovitskiy et al., 2021) from transformers, with random weights."""

from __future__ import annotations

from rematopt.zoo.common import Example, image_batch, import_transformers, seeded


def vit(
    *,
    batch: int = 8,
    resolution: int = 96,
    patch: int = 8,
    layers: int = 4,
    width: int = 192,
    heads: int = 3,
    classes: int = 100,
    dropout: float = 0.1,
    seed: int = 0,
) -> Example:
    """Build a ViT; ``resolution=224, patch=16, layers=12, width=768, heads=12`` is the published base model.

    Parameters
    ----------
    batch, resolution, patch : int
        Images of the batch, their height and width, and the height and width of a patch.
    layers, width, heads : int
        Blocks, hidden width and attention heads.
    classes : int
        Number of classes.
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
    config = transformers.ViTConfig(
        image_size=resolution,
        patch_size=patch,
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_labels=classes,
        # Named here, since transformers otherwise infers it inside the forward and stores it in the config.
        problem_type="single_label_classification",
    )
    with seeded(seed):
        model = transformers.ViTForImageClassification(config)
        model.loss_type = "ForImageClassification"
        images, labels = image_batch(batch, resolution, classes)
        return model.train(), (), {"pixel_values": images, "labels": labels}
